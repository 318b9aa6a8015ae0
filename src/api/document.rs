//! What is said of every operation, in the document that describes them all.
//!
//! The document is derived from the code that serves it. What derivation cannot know, or gets wrong everywhere in the same
//! way, is mended here once.

use axum::http::StatusCode;
use serde_json::{Value, json};

/// The derived document, mended.
pub fn refined(document: Value) -> Value {
    let mut document = without_null(document);
    complete(&mut document);
    document
}

/// The document without `null`: what is not said is left out, in requests and in answers, but the descriptions of
/// fields that may be left out are derived as if nothing could be said of them too.
fn without_null(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        Value::Object(mut fields) => {
            for name in ["type", "oneOf"] {
                let Some(Value::Array(variants)) = fields.get_mut(name) else { continue };
                variants.retain(|variant| *variant != "null" && *variant != json!({"type": "null"}));
                match variants.as_slice() {
                    [Value::Object(only)] => {
                        let only = only.clone();
                        fields.remove(name);
                        fields.extend(only);
                    }
                    [only] => {
                        let only = only.clone();
                        fields.insert(name.to_owned(), only);
                    }
                    _ => (),
                }
            }
            fields.into_iter().map(|(name, value)| (name, without_null(value))).collect()
        }
        plain => plain,
    }
}

/// Says what the derived description leaves out of every operation: what its filters look like, and in words what its
/// codes mean, without which the document is not a valid one.
fn complete(document: &mut Value) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let operations = paths.flat_map(|(_, path)| path.as_object_mut().into_iter().flatten());
    for (_, operation) in operations {
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            describe_filter(parameter);
        }
        for (code, response) in operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten() {
            let reason = code.parse::<StatusCode>().ok().and_then(|code| code.canonical_reason());
            if let Some(fields) = response.as_object_mut() {
                fields.entry("description").or_insert_with(|| reason.unwrap_or("An answer").into());
            }
        }
    }
}

/// Ids are UUIDs, tags have a name.
fn describe_filter(parameter: &mut Value) {
    let (keyword, form) = match parameter["name"].as_str() {
        Some("tag") => ("pattern", "^[^=]+="),
        Some(name) if name.ends_with("ID") => ("format", "uuid"),
        _ => return,
    };
    if let Some(item) = parameter.pointer_mut("/schema/items").and_then(Value::as_object_mut) {
        item.insert(keyword.to_owned(), form.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::api::{every_service, routes};

    /// Served and not described: what probes and readers of the document ask, its page, and the unescaped form of
    /// references.
    const UNDESCRIBED: [&str; 8] = [
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/page.css",
        "/docs/page.js",
        "/api/v2/networks/{networkID}/references/{reference}/{id}",
        "/api/v1/organizations/{organizationID}/projects/{projectID}/references/{reference}/{id}",
    ];

    type Routes = BTreeMap<String, BTreeSet<String>>;

    /// Paths and their methods, as the document has them.
    fn described() -> Routes {
        let (_, document) = every_service().split_for_parts();
        let document = json!(document);
        let paths = document["paths"].as_object().expect("paths");
        let methods =
            |path: &Value| path.as_object().expect("methods").keys().map(|name| name.to_uppercase()).collect();
        paths.iter().map(|(path, operations)| (path.clone(), methods(operations))).collect()
    }

    /// The same, as the router has them. It cannot be asked, but it can be printed: first its routes, each with the
    /// methods that it allows, then their paths.
    fn served() -> Routes {
        let printed = format!("{:?}", routes());
        let (printed, _) = printed.split_once("fallback_router:").expect("the known form");
        let (routes, paths) = printed.split_once("node: Node").expect("the known form");
        let numbered = |text: &str, before: &str| {
            let part = |part: &str| {
                let (number, rest) = part.split_once(')')?;
                let (value, _) = rest.split_once(before)?.1.split_once('"')?;
                Some((number.to_owned(), value.to_owned()))
            };
            text.split("RouteId(").filter_map(part).collect::<BTreeMap<_, _>>()
        };
        let (allowed, paths) = (numbered(routes, "allow_header: Bytes(b\""), numbered(paths, ": \""));
        assert_eq!(allowed.keys().collect::<Vec<_>>(), paths.keys().collect::<Vec<_>>(), "each route has a path");
        let methods =
            |number: &str| allowed[number].split(',').filter(|name| *name != "HEAD").map(str::to_owned).collect();
        paths.into_iter().map(|(number, path)| (path, methods(&number))).collect()
    }

    /// Where each service has its own view.
    const SERVICES: [&str; 3] = ["/region/", "/compute/", "/identity/"];

    #[test]
    fn every_route_that_is_served_is_described_and_no_other() {
        let described = described();
        let mut served = served();
        assert!(served.len() > 100, "the router was read: {served:?}");
        for path in UNDESCRIBED {
            served.remove(path);
        }
        let (nested, root) = served
            .into_iter()
            .partition::<Routes, _>(|(path, _)| SERVICES.iter().any(|service| path.starts_with(service)));
        assert_eq!(root, described, "served is on the left");
        for (path, methods) in nested {
            let (_, inner) = path[1..].split_once('/').expect("a service's name");
            let inner = format!("/{inner}");
            // A service may have fewer methods than the root, which has those of all of them.
            let is_described = described.get(&inner).is_some_and(|all| methods.is_subset(all));
            let is_described = is_described || UNDESCRIBED.contains(&inner.as_str());
            assert!(is_described, "{path} {methods:?}");
        }
    }

    #[test]
    fn filters_say_what_they_take_and_codes_what_they_mean() {
        let list = || json!({"type": "array", "items": {"type": "string"}});
        let filter = |name: &str| json!({"in": "query", "name": name, "schema": list()});
        let mut document = json!({"paths": {"/x": {"get": {
            "parameters": [filter("regionID"), filter("tag"), filter("status")],
            "responses": {"202": {}, "404": {"description": "Nothing."}},
        }, "put": {}}}});
        complete(&mut document);
        let operation = &document["paths"]["/x"]["get"];
        let item = |index: usize| &operation["parameters"][index]["schema"]["items"];
        assert_eq!(*item(0), json!({"type": "string", "format": "uuid"}));
        assert_eq!(*item(1), json!({"type": "string", "pattern": "^[^=]+="}));
        assert_eq!(*item(2), json!({"type": "string"}));
        assert_eq!(operation["responses"]["202"], json!({"description": "Accepted"}));
        assert_eq!(operation["responses"]["404"], json!({"description": "Nothing."}));
        assert_eq!(document["paths"]["/x"]["put"], json!({}), "nothing is made up");
    }

    #[test]
    fn the_document_knows_no_null() {
        let derived = json!({"properties": {
            "text": {"type": ["string", "null"], "maxLength": 3},
            "other": {"oneOf": [{"type": "null"}, {"$ref": "#/x", "description": "Why."}]},
            "either": {"oneOf": [{"$ref": "#/x"}, {"$ref": "#/y"}]},
            "list": [{"type": ["integer", "null"]}],
        }});
        let said = json!({"properties": {
            "text": {"type": "string", "maxLength": 3},
            "other": {"$ref": "#/x", "description": "Why."},
            "either": {"oneOf": [{"$ref": "#/x"}, {"$ref": "#/y"}]},
            "list": [{"type": "integer"}],
        }});
        assert_eq!(without_null(derived), said);
    }
}
