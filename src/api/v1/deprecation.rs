//! How the first version says that it is going, and how an operator ends it.
//!
//! Every answer on one of its paths has `Deprecation` (RFC 9745) and, where the second version does the same, a `Link` to
//! what follows it; every request is counted by its route. An operator who sees that nobody asks any more, or wants
//! nobody to, says `--v1 read-only` and then `--v1 off`. Paths that have no successor are served whatever is said there:
//! without them the second version cannot be used.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clap::ValueEnum;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Deprecated, PathItem};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use crate::api::Shared;
use crate::api::error::ApiError;

/// What an operator lets clients of the first version do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Availability {
    /// Everything is answered.
    #[default]
    On,
    /// Changes are refused; what is there is shown.
    ReadOnly,
    /// Its paths do not exist. What was made through it stays, and is seen by operators alone.
    Off,
}

/// The second version was complete before this year began, and that is since when the first is deprecated.
const SINCE: HeaderValue = HeaderValue::from_static("@1767225600");

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// All paths of the first version begin like this.
const BASE: &str = "/api/v1/organizations/{organizationID}";

const NETWORKS: Option<&str> = Some("/api/v2/networks");
const SECURITY_GROUPS: Option<&str> = Some("/api/v2/securitygroups");
const SERVERS: Option<&str> = Some("/api/v2/servers");
const CLUSTERS: Option<&str> = Some("/api/v2/clusters");
const REGION_IMAGES: Option<&str> = Some("/api/v2/regions/{regionID}/images");

/// One path of the first version.
struct Route {
    /// After the [`BASE`].
    path: &'static str,
    /// What follows it: a list even where one object is named, because it does not exist in the other version.
    successor: Option<&'static str>,
    /// It is served whatever the operator says.
    is_kept: bool,
    /// Can it be read?
    has_get: bool,
}

const fn route(path: &'static str, successor: Option<&'static str>) -> Route {
    Route { path, successor, is_kept: false, has_get: true }
}

const fn command(path: &'static str, successor: Option<&'static str>) -> Route {
    Route { has_get: false, ..route(path, successor) }
}

const fn kept(path: &'static str, successor: Option<&'static str>) -> Route {
    Route { is_kept: true, ..route(path, successor) }
}

const ROUTES: &[Route] = &[
    kept("/regions", None),
    kept("/regions/{regionID}/detail", None),
    kept("/regions/{regionID}/flavors", None),
    kept("/regions/{regionID}/externalnetworks", None),
    kept("/regions/{regionID}/images", REGION_IMAGES),
    Route { has_get: false, ..kept("/regions/{regionID}/images/{imageID}", None) },
    route("/identities", None),
    command("/projects/{projectID}/identities", None),
    route("/projects/{projectID}/identities/{identityID}", None),
    route("/networks", NETWORKS),
    command("/projects/{projectID}/identities/{identityID}/networks", NETWORKS),
    route("/projects/{projectID}/identities/{identityID}/networks/{networkID}", NETWORKS),
    route("/securitygroups", SECURITY_GROUPS),
    command("/projects/{projectID}/identities/{identityID}/securitygroups", SECURITY_GROUPS),
    route("/projects/{projectID}/identities/{identityID}/securitygroups/{securityGroupID}", SECURITY_GROUPS),
    route("/servers", SERVERS),
    command("/projects/{projectID}/identities/{identityID}/servers", SERVERS),
    route("/projects/{projectID}/identities/{identityID}/servers/{serverID}", SERVERS),
    command("/projects/{projectID}/identities/{identityID}/servers/{serverID}/start", SERVERS),
    command("/projects/{projectID}/identities/{identityID}/servers/{serverID}/stop", SERVERS),
    command("/projects/{projectID}/identities/{identityID}/servers/{serverID}/softreboot", SERVERS),
    command("/projects/{projectID}/identities/{identityID}/servers/{serverID}/hardreboot", SERVERS),
    route("/projects/{projectID}/identities/{identityID}/servers/{serverID}/consolesessions", SERVERS),
    route("/projects/{projectID}/identities/{identityID}/servers/{serverID}/consoleoutput", SERVERS),
    route("/clusters", CLUSTERS),
    command("/projects/{projectID}/clusters", CLUSTERS),
    route("/projects/{projectID}/clusters/{clusterID}", CLUSTERS),
    command("/projects/{projectID}/clusters/{clusterID}/evict", CLUSTERS),
    command("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/start", CLUSTERS),
    command("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/stop", CLUSTERS),
    command("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/softreboot", CLUSTERS),
    command("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/hardreboot", CLUSTERS),
    route("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/consolesessions", CLUSTERS),
    route("/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/consoleoutput", CLUSTERS),
];

/// The route by its pattern, and what a service that has a listener's path for itself puts before it.
fn find(pattern: &str) -> Option<(&str, &'static Route)> {
    let (mount, path) = pattern.split_once(BASE)?;
    ROUTES.iter().find(|route| route.path == path).map(|route| (mount, route))
}

/// Around every route: counts, announces and, if the operator says so, refuses what is asked of the first version.
pub async fn announce(State(api): State<Shared>, request: Request, next: Next) -> Response {
    let pattern = request.extensions().get::<MatchedPath>().cloned();
    let Some((mount, route)) = pattern.as_ref().and_then(|pattern| find(pattern.as_str())) else {
        return next.run(request).await;
    };
    // The same bounded labels as those of every request; the route without its mount is the one to migrate from.
    metrics::counter!("regent_v1_requests_total", "route" => format!("{BASE}{}", route.path)).increment(1);
    let link = route.successor.and_then(|successor| link(mount, successor, request.uri().path()));
    let mut response = match api.settings.v1 {
        _ if route.is_kept => next.run(request).await,
        Availability::Off => ApiError::not_found().into_response(),
        Availability::ReadOnly if !is_read(request.method()) || !route.has_get => unchanging(route),
        Availability::On | Availability::ReadOnly => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(DEPRECATION, SINCE);
    if let Some(link) = link {
        headers.append(header::LINK, link);
    }
    response
}

fn is_read(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

fn unchanging(route: &Route) -> Response {
    let allowed = HeaderValue::from_static(if route.has_get { "GET,HEAD" } else { "" });
    let refusal = ApiError::of_status(StatusCode::METHOD_NOT_ALLOWED);
    ([(header::ALLOW, allowed)], refusal).into_response()
}

/// The successor, in the place of the same service, with the region that was named if it needs one.
fn link(mount: &str, successor: &str, path: &str) -> Option<HeaderValue> {
    let region = || path.split_once("/regions/")?.1.split('/').next()?.parse::<Uuid>().ok();
    let successor = match successor.split_once("{regionID}") {
        Some((before, after)) => format!("{before}{}{after}", region()?),
        None => successor.to_owned(),
    };
    HeaderValue::from_str(&format!("<{mount}{successor}>; rel=\"successor-version\"")).ok()
}

/// Says in the document which operations are deprecated: those that `--v1 off` takes away.
pub fn marked(mut routes: OpenApiRouter<Shared>) -> OpenApiRouter<Shared> {
    for (path, item) in &mut routes.get_openapi_mut().paths.paths {
        let is_kept = find(path).is_some_and(|(_, route)| route.is_kept);
        for operation in operations(item).into_iter().filter(|_| !is_kept) {
            operation.deprecated = Some(Deprecated::True);
        }
    }
    routes
}

fn operations(item: &mut PathItem) -> Vec<&mut Operation> {
    let PathItem { get, put, post, delete, .. } = item;
    [get, put, post, delete].into_iter().filter_map(Option::as_mut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_first_version_is_announced_and_said_to_be_read_if_it_can_be() {
        let document = crate::api::v1::routes().merge(crate::api::compute::v1::routes()).to_openapi();
        assert!(!document.paths.paths.is_empty());
        for (path, item) in &document.paths.paths {
            let (mount, route) = find(path).unwrap_or_else(|| panic!("{path} is not in the table"));
            assert_eq!((mount, route.has_get), ("", item.get.is_some()), "{path}");
        }
    }

    #[test]
    fn a_successor_is_where_the_service_is_and_repeats_nothing_but_an_id() {
        let region = Uuid::from_u128(7);
        let images = |region: &str| format!("/api/v1/organizations/x/regions/{region}/images");
        let text = |value: Option<HeaderValue>| value.map(|value| value.to_str().expect("ascii").to_owned());
        assert_eq!(
            text(link("/region", "/api/v2/networks", "/api/v1/organizations/x/networks")).as_deref(),
            Some("</region/api/v2/networks>; rel=\"successor-version\"")
        );
        assert_eq!(
            text(link("", "/api/v2/regions/{regionID}/images", &images(&region.to_string()))),
            Some(format!("</api/v2/regions/{region}/images>; rel=\"successor-version\""))
        );
        assert_eq!(link("", "/api/v2/regions/{regionID}/images", &images("%3E")), None);
    }
}
