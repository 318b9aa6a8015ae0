//! Images of an organization's own: fetched or saved once, nobody else's, shared with whoever boots, and unmade.

use std::collections::BTreeMap;

use regent::model::ids::ImageId;
use regent::model::image::{
    Architecture, ImageContents, ImageDetail, ImageSource, ImageSpec, ImageStatus, OperatingSystem, Virtualization,
};
use regent::providers::{Deletion, ImageFact, ImageRequest, Provider, ProviderError, ServerRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::machines::Place;
use super::random;

/// A disk of a megabyte, for whoever asks for `/disk`; whoever asks for anything else is told that there is none.
pub async fn store() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut asked = vec![0; 4096];
            let read = stream.read(&mut asked).await.unwrap_or_default();
            let is_there = asked[..read].windows(5).any(|window| window == b"/disk");
            let disk = vec![0; if is_there { 1 << 20 } else { 0 }];
            let status = if is_there { "200 OK" } else { "404 Not Found" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", disk.len());
            let answered = async {
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&disk).await?;
                stream.shutdown().await
            };
            answered.await.ok();
        }
    };
    regent::actors::tasks::spawn("a store of disks", serving);
    format!("http://{address}")
}

fn contents() -> ImageContents {
    ImageContents {
        architecture: Architecture::X86_64,
        virtualization: Virtualization::Virtualized,
        os: OperatingSystem {
            kernel: "linux".to_owned(),
            family: "debian".to_owned(),
            distro: "ubuntu".to_owned(),
            variant: None,
            codename: None,
            version: "24.04".to_owned(),
        },
        gpu: None,
        packages: BTreeMap::new(),
    }
}

impl Place {
    fn image_request(&self, source: ImageSource, server: Option<ServerRequest>) -> ImageRequest {
        ImageRequest {
            id: ImageId(random()),
            incarnation: self.world.incarnation,
            organization: self.world.organization,
            name: "golden".to_owned(),
            spec: ImageSpec { contents: contents(), source, size_gib: Some(1) },
            server: server.map(Box::new),
            detail: ImageDetail::default(),
        }
    }

    pub fn import_request(&self, uri: &str) -> ImageRequest {
        let uri = self.world.records.envelope.seal(&uri.to_owned()).expect("sealed");
        self.image_request(ImageSource::Import { uri }, None)
    }

    /// Of a server's disk.
    pub fn saved_request(&self, server: &ServerRequest) -> ImageRequest {
        let source = ImageSource::Snapshot { server: server.id, incarnation: server.incarnation };
        self.image_request(source, Some(server.clone()))
    }

    /// Until nothing changes by itself any more.
    pub async fn settled(&self, request: &ImageRequest) -> ImageFact {
        self.eventually("an image", async || match self.world.provider.converge_image(&self.context(), request).await {
            Ok(seen) => Some(seen.fact).filter(|fact| fact.status.is_settled()),
            Err(ProviderError::Conflict(_)) => None,
            Err(error) => panic!("{error}"),
        })
        .await
    }

    pub async fn no_image(&self, request: &ImageRequest) {
        self.gone(async || self.world.provider.delete_image(&self.context(), request).await).await;
        let again = self.world.provider.delete_image(&self.context(), request).await;
        assert_eq!(again, Ok(Deletion::Absent));
    }

    fn booting(&self, image: ImageId) -> ServerRequest {
        let mut server = self.server_request("booted");
        server.spec.image = image;
        server.spec.own_images = vec![image];
        server
    }
}

fn ready(mut request: ImageRequest) -> ImageRequest {
    request.server = None;
    request.detail.status = Some(ImageStatus::Ready);
    request
}

#[tokio::test]
async fn b18_an_import_is_fetched_once_seen_by_nobody_else_and_shared_with_whoever_boots() {
    let place = Place::new().await;
    let admin = place.admin().await;
    let request = place.import_request(&format!("{}/disk", store().await));
    assert_eq!(place.settled(&request).await.status, ImageStatus::Ready);
    let changes = place.changes_since(0);
    let ordered = changes.iter().filter(|name| name.contains("image")).collect::<Vec<_>>();
    assert_eq!(ordered, [&"create-image", &"import-image"]);
    let path = format!("v2/images/{}", request.id);
    let (status, seen) = admin.call("GET", "image", &path, None).await;
    assert_eq!((status, seen["visibility"].as_str()), (200, Some("shared")));
    assert_eq!(seen["unikorn:organization:id"], place.world.organization.to_string());
    let members = admin.list("image", &format!("{path}/members"), "members").await;
    assert!(members.is_empty(), "{members:?}");

    let mut server = place.booting(request.id);
    let booted = place.server(&mut server).await;
    assert_eq!(booted.server.expect("a server").image, Some(request.id));
    let members = admin.list("image", &format!("{path}/members"), "members").await;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0]["member_id"], place.project());
    place.no_server(&server).await;
    let request = ready(request);
    place.no_image(&request).await;
    // What was ready once is not made again.
    let lost = place.world.provider.converge_image(&place.context(), &request).await;
    assert_eq!(lost.map(|seen| seen.fact), Err(ProviderError::NotFound));
    place.end().await;
}

#[tokio::test]
async fn an_import_that_fails_says_so_and_stays_so() {
    let place = Place::new().await;
    let request = place.import_request(&format!("{}/nothing", store().await));
    assert_eq!(place.settled(&request).await.status, ImageStatus::Failed);
    let calls = place.world.calls();
    assert_eq!(place.settled(&request).await.status, ImageStatus::Failed);
    assert_eq!(place.changes_since(calls), [""; 0], "it is ordered once");
    place.no_image(&request).await;
    place.end().await;
}

#[tokio::test]
async fn a_servers_disk_is_saved_once_and_boots_on_another_network() {
    let (place, elsewhere) = (Place::new().await, Place::new().await);
    let mut server = place.server_request("source");
    place.server(&mut server).await;
    let request = place.saved_request(&server);
    let begun = place.world.provider.converge_image(&place.context(), &request).await.expect("begun").fact;
    assert!(matches!(begun.status, ImageStatus::Pending | ImageStatus::Creating | ImageStatus::Ready));
    assert_eq!(place.settled(&request).await.status, ImageStatus::Ready);
    let saved = place.changes_since(0).into_iter().filter(|name| *name == "save-server").count();
    assert_eq!(saved, 1);
    let request = ready(request);
    assert_eq!(place.settled(&request).await.status, ImageStatus::Ready, "found without its server");

    let mut booted = elsewhere.booting(request.id);
    let fact = elsewhere.server(&mut booted).await;
    assert_eq!(fact.server.expect("a server").image, Some(request.id), "told by the id that we know it by");
    let calls = elsewhere.world.calls();
    elsewhere.converge(&booted).await.expect("the same");
    assert_eq!(elsewhere.changes_since(calls), [""; 0]);
    // And back, and there again: the name of the image goes with every rebuild.
    let provider = &elsewhere.world.provider;
    let tiny = elsewhere.image("tiny");
    provider.rebuild_server(&elsewhere.context(), &booted, tiny).await.expect("ordered");
    elsewhere.until(&booted, |seen| seen.image == Some(tiny) && !seen.is_busy()).await;
    provider.rebuild_server(&elsewhere.context(), &booted, request.id).await.expect("ordered");
    elsewhere.until(&booted, |seen| seen.image == Some(request.id) && !seen.is_busy()).await;
    elsewhere.no_server(&booted).await;
    place.no_image(&request).await;

    // One that is given up before it is done: whose it is follows from its server.
    let given_up = place.saved_request(&server);
    place.world.provider.converge_image(&place.context(), &given_up).await.expect("begun");
    place.no_image(&ImageRequest { server: None, ..given_up }).await;
    place.no_server(&server).await;
    elsewhere.end().await;
    place.end().await;
}
