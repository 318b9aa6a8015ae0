//! What whole families of operations can do, said once and added to the document of all of them.
//!
//! The operations describe themselves where they are written. That every change can be tried, repeated and bound to what
//! was read, that every list of resources can be paged, and that one resource is read with its tag is true of all, also
//! of those who are written tomorrow: nobody should have to remember to say it.

use serde_json::{Map, Value, json};

use super::surfaces::SURFACES;

/// Adds to a finished document.
pub fn complete(document: &mut Value) {
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    for (path, operations) in paths {
        let Some(operations) = operations.as_object_mut() else { continue };
        for (method, operation) in operations {
            if let Some(operation) = operation.as_object_mut() {
                complete_operation(path, method, operation);
            }
        }
    }
}

fn complete_operation(path: &str, method: &str, operation: &mut Map<String, Value>) {
    let collection = |path: &str| SURFACES.iter().any(|surface| path == format!("/api/v2/{}", surface.collection));
    let resource = SURFACES.iter().any(|surface| path == format!("/api/v2/{}/{{{}}}", surface.collection, surface.id));
    if matches!(method, "post" | "put" | "delete") {
        add_parameters(operation, &[idempotency_key(), dry_run()]);
        if method != "post" {
            add_parameters(operation, &[if_match()]);
            add_error(operation, "412", "The resource is not the one that If-Match names.");
        }
        add_error(operation, "409", "With Idempotency-Key: done already, and its answer is not given again.");
        add_error(operation, "422", "With Idempotency-Key: the key was used for another request.");
        add_dry_run_answer(operation);
    }
    if method == "get" && collection(path) {
        add_parameters(operation, &[limit(), cursor(), sort()]);
        add_header(
            operation,
            "200",
            "Link",
            "The next page, with rel=\"next\", if there is one and paging was asked for.",
        );
    }
    let is_shown = resource && matches!(method, "get" | "put") || method == "post" && collection(path);
    for status in ["200", "201", "202"].into_iter().filter(|_| is_shown) {
        if status != "200" || method == "get" {
            add_header(operation, status, "ETag", "Which state of the resource it is, for If-Match.");
        }
    }
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Makes it safe to send the request again: for a day, the same key and content get the first answer.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$"},
    })
}

fn dry_run() -> Value {
    json!({
        "name": "dryRun", "in": "query", "required": false,
        "description": "With true, everything is checked and what would happen is told, and nothing is written.",
        "schema": {"type": "boolean"},
    })
}

fn if_match() -> Value {
    json!({
        "name": "If-Match", "in": "header", "required": false,
        "description": "The ETag that was read: if the resource has been changed since, nothing is done.",
        "schema": {"type": "string", "pattern": "^(\\*|(W/)?\"[!#-+\\--~]*\")$"},
    })
}

fn limit() -> Value {
    json!({
        "name": "limit", "in": "query", "required": false,
        "description": "At most so many; the next page is in the Link header. Without limit, cursor and sort the list is complete.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1000},
    })
}

fn cursor() -> Value {
    json!({
        "name": "cursor", "in": "query", "required": false,
        "description": "Where to go on, as a Link header gave it.",
        "schema": {"type": "string", "maxLength": 512},
    })
}

fn sort() -> Value {
    json!({
        "name": "sort", "in": "query", "required": false,
        "description": "In this order, page by page (1000 to a page, unless limit says less); with - the other way round.",
        "schema": {"type": "string", "enum": ["name", "-name", "creationTime", "-creationTime", "id", "-id"]},
    })
}

fn entry<'a>(object: &'a mut Map<String, Value>, name: &str, new: Value) -> &'a mut Value {
    object.entry(name).or_insert(new)
}

fn add_parameters(operation: &mut Map<String, Value>, parameters: &[Value]) {
    if let Some(known) = entry(operation, "parameters", json!([])).as_array_mut() {
        known.extend_from_slice(parameters);
    }
}

/// An operation that says itself what a code means knows better.
fn add_error(operation: &mut Map<String, Value>, status: &str, description: &str) {
    let error = json!({
        "description": description,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}},
    });
    if let Some(responses) = entry(operation, "responses", json!({})).as_object_mut() {
        responses.entry(status).or_insert(error);
    }
}

fn add_dry_run_answer(operation: &mut Map<String, Value>) {
    let told = json!({"$ref": "#/components/schemas/dryRun"});
    let Some(responses) = entry(operation, "responses", json!({})).as_object_mut() else { return };
    // An operation that answers 200 with nothing: no document can say that there is a body now and then.
    if responses.get("200").is_some_and(|own| own.get("content").is_none()) {
        return;
    }
    let Some(answer) =
        entry(responses, "200", json!({"description": "With dryRun: what would happen."})).as_object_mut()
    else {
        return;
    };
    let Some(content) = entry(answer, "content", json!({})).as_object_mut() else { return };
    let Some(json) = entry(content, "application/json", json!({})).as_object_mut() else { return };
    let schema = match json.remove("schema") {
        Some(own) => json!({"oneOf": [own, told]}),
        None => told,
    };
    json.insert("schema".to_owned(), schema);
}

fn add_header(operation: &mut Map<String, Value>, status: &str, name: &str, description: &str) {
    let answer = operation.get_mut("responses").and_then(|responses| responses.get_mut(status));
    let Some(answer) = answer.and_then(Value::as_object_mut) else { return };
    if let Some(headers) = entry(answer, "headers", json!({})).as_object_mut() {
        headers.insert(name.to_owned(), json!({"description": description, "schema": {"type": "string"}}));
    }
}
