//! Making and unmaking an image of an organization's own, and letting a project boot from it.
//!
//! ```text
//!   import    in the service account's project, under our id ──▶ the cloud fetches it
//!   snapshot  in the server's project, found by what is written into it ──▶ shared with the service account
//!   boot      shared with the server's project, just before
//! ```
//!
//! No image is public: what one organization owns no other tenant of the cloud can boot from (B18). The cloud chooses the
//! id of a snapshot; so that its owner need not be known to find it again, it is shared with the service account before
//! it is shown, whatever became of it. Glance never gives an id out twice: an import that failed stays, and says so.

use openstack_sdk_core::types::ServiceType;
use openstack_sdk_image::v2::image::{delete as delete_image, get as get_image};
use serde::Deserialize;
use serde_json::json;

use super::asking::Ask;
use super::connection::Acting;
use super::image_plan::{self as planning, IMAGE_KEY, ImageBody, ImportStep, TaskBody};
use super::session::{Session, at_most_one, on};
use crate::model::ids::{IdentityId, ImageId, ProviderProjectId};
use crate::model::image::ImageSource;
use crate::providers::pool::Service;
use crate::providers::{Deletion, ImageFact, ImageRequest, Observed, ProviderError, ProviderResult, ServerRequest};

#[derive(Clone, Deserialize)]
struct SnapshotBody {
    image_id: String,
}

impl Session<'_> {
    pub async fn converge_image(&self, request: &ImageRequest) -> ProviderResult<Observed<ImageFact>> {
        let source = self.identity_of_source(request).await?;
        let seen = self.look_at_image(request, source).await?;
        let image = match seen.fact {
            Some(image) if image.is_leaving() => {
                return Err(ProviderError::Conflict("it is being removed".to_owned()));
            }
            Some(image) => image,
            None if request.detail.is_settled() => return Err(ProviderError::NotFound),
            None => self.create_image(request).await?,
        };
        if source.is_some() {
            self.show_to_observer(request, &image).await?;
        }
        let fact = match &request.spec.source {
            ImageSource::Import { uri } if image.is_empty() => {
                let uri = self.provider.principals.open(uri)?;
                self.import(&image, &uri).await?
            }
            _ => image.fact(),
        };
        Ok(Observed { sequence: seen.sequence, fact })
    }

    /// Whose the server is that it is made from, as long as that is not over.
    async fn identity_of_source(&self, request: &ImageRequest) -> ProviderResult<Option<IdentityId>> {
        match (&request.server, &request.spec.source) {
            (Some(server), _) => Ok(Some(server.identity)),
            (None, ImageSource::Snapshot { server, .. }) if !request.detail.is_settled() => {
                self.provider.principals.of(server.key()).await
            }
            _ => Ok(None),
        }
    }

    /// By what is written into it, in the project of its source and among all that the service account is shown; and by
    /// its id, which we know before the cloud has ever answered, where it is the cloud's as well.
    async fn look_at_image(
        &self,
        request: &ImageRequest,
        source: Option<IdentityId>,
    ) -> ProviderResult<Observed<Option<ImageBody>>> {
        if matches!(request.spec.source, ImageSource::Import { .. }) {
            let endpoint = get_image::Request::builder().id(request.id.to_string()).build();
            let operation = on(Service::Image, "get-image", request.id);
            return match self.read::<_, _, ImageBody>(&Acting::Observer, operation, endpoint).await {
                Ok(Observed { sequence, fact }) => Ok(Observed { sequence, fact: Some(fact) }),
                // Nothing has a sequence of its own: what is reported is what is then made.
                Err(ProviderError::NotFound) => self.find_images(&Acting::Observer, request.id).await.map(|found| {
                    let fact = None;
                    Observed { sequence: found.sequence, fact }
                }),
                Err(error) => Err(error),
            };
        }
        let acting = match source {
            Some(identity) => self.principal_of(identity).await?,
            None => Acting::Observer,
        };
        let mut found = self.find_images(&acting, request.id).await?;
        found.fact.retain(|image| image.is_of(request.id, request.incarnation));
        Ok(Observed { sequence: found.sequence, fact: at_most_one(found.fact, "image")? })
    }

    async fn find_images(&self, acting: &Acting, id: ImageId) -> ProviderResult<Observed<Vec<ImageBody>>> {
        let ask = Ask::get(ServiceType::Image, "images".to_owned()).with(IMAGE_KEY, id.to_string()).within("images");
        self.read(acting, on(Service::Image, "find-images", id), ask.build()).await
    }

    async fn image(&self, acting: &Acting, id: &str) -> ProviderResult<Option<ImageBody>> {
        let endpoint = get_image::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<ImageBody>> =
            self.look(acting, on(Service::Image, "get-image-body", id), endpoint).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    async fn create_image(&self, request: &ImageRequest) -> ProviderResult<ImageBody> {
        let Some(server) = &request.server else { return self.create_import(request).await };
        let acting = self.principal_of(server.identity).await?;
        let machine = self.machine(&acting, server).await?;
        let properties = planning::properties(request, Some(server.identity));
        let order = json!({"createImage": {"name": request.name, "metadata": properties}});
        let ask = Ask::post(ServiceType::Compute, format!("servers/{}/action", machine.id), order);
        let made: SnapshotBody =
            self.change(&acting, on(Service::Compute, "save-server", request.id), ask.build()).await?;
        let gone = || ProviderError::Conflict("the image was taken away as soon as it was begun".to_owned());
        self.image(&acting, &made.image_id).await?.ok_or_else(gone)
    }

    async fn create_import(&self, request: &ImageRequest) -> ProviderResult<ImageBody> {
        let ask = Ask::post(ServiceType::Image, "images".to_owned(), planning::new_import(request));
        let operation = on(Service::Image, "create-image", request.id);
        match self.change(&Acting::Observer, operation, ask.build()).await {
            // The id is taken: by an order whose answer was lost and that came through now, or by what is gone for good.
            Err(ProviderError::Conflict(_)) => {
                let used_up = || ProviderError::Rejected("the image was there, and is gone".to_owned());
                self.image(&Acting::Observer, &request.id.to_string()).await?.ok_or_else(used_up)
            }
            made => made,
        }
    }

    /// Tells the cloud where to get it, once.
    async fn import(&self, image: &ImageBody, uri: &str) -> ProviderResult<ImageFact> {
        let ask = Ask::get(ServiceType::Image, format!("images/{}/tasks", image.id)).within("tasks");
        let operation = on(Service::Image, "look-at-import", &image.id);
        let tasks: Vec<TaskBody> = self.read(&Acting::Observer, operation, ask.build()).await?.fact;
        match planning::next_of_import(&tasks) {
            ImportStep::Order => {
                let body = json!({"method": {"name": "web-download", "uri": uri}});
                let ask = Ask::post(ServiceType::Image, format!("images/{}/import", image.id), body);
                self.order(&Acting::Observer, on(Service::Image, "import-image", &image.id), ask.build()).await?;
                Ok(image.fact())
            }
            ImportStep::Wait => Ok(image.fact()),
            ImportStep::GiveUp => Ok(image.failed()),
        }
    }

    /// Lets the service account find a snapshot without knowing whose it is.
    async fn show_to_observer(&self, request: &ImageRequest, image: &ImageBody) -> ProviderResult<()> {
        let found = self.find_images(&Acting::Observer, request.id).await?.fact;
        if found.iter().any(|found| found.id == image.id && found.visibility == "shared") {
            return Ok(());
        }
        let own = self.grant(&Acting::Observer).await?.project;
        let nowhere = || ProviderError::Unavailable("the service account has no project".to_owned());
        let own = own.ok_or_else(nowhere)?;
        if image.owner == own.0 {
            return self.unlock_image(&Acting::Observer, image).await;
        }
        self.share_image(image, &own).await?;
        let (path, body) = (format!("images/{}/members/{}", image.id, own.0), json!({"status": "accepted"}));
        let ask = Ask::put(ServiceType::Image, path, body);
        self.order(&Acting::Observer, on(Service::Image, "accept-image", &image.id), ask.build()).await
    }

    /// Lets a project boot from an image. Only the project that it lies in may say so.
    async fn share_image(&self, image: &ImageBody, project: &ProviderProjectId) -> ProviderResult<()> {
        if image.owner == project.0 || image.visibility == "public" {
            return Ok(());
        }
        let owner = Acting::Steward(ProviderProjectId(image.owner.clone()));
        self.unlock_image(&owner, image).await?;
        let path = format!("images/{}/members", image.id);
        let ask = Ask::post(ServiceType::Image, path, json!({"member": project.0}));
        match self.order(&owner, on(Service::Image, "share-image", &image.id), ask.build()).await {
            // It is a member already.
            Ok(()) | Err(ProviderError::Conflict(_)) => Ok(()),
            Err(ProviderError::Unauthorized) => Err(self.why_not_shared(&owner, &image.id).await?),
            Err(error) => Err(error),
        }
    }

    /// Nova makes snapshots for their own project alone.
    async fn unlock_image(&self, owner: &Acting, image: &ImageBody) -> ProviderResult<()> {
        if image.visibility == "shared" {
            return Ok(());
        }
        let change = json!([{"op": "replace", "path": "/visibility", "value": "shared"}]);
        let ask = Ask::patch_image(format!("images/{}", image.id), change);
        self.order(owner, on(Service::Image, "unlock-image", &image.id), ask.build()).await
    }

    /// Glance has one word for who may not share an image and for one that cannot be shared. It is Nova that locks a
    /// snapshot again, while it writes it.
    async fn why_not_shared(&self, owner: &Acting, id: &str) -> ProviderResult<ProviderError> {
        let is_shared = self.image(owner, id).await?.is_some_and(|image| image.visibility == "shared");
        let locked = || ProviderError::Conflict("the cloud is still writing the image".to_owned());
        Ok(if is_shared { ProviderError::Unauthorized } else { locked() })
    }

    /// The cloud's own id of what a server is to boot from, which its project may then do.
    pub(super) async fn image_to_boot(
        &self,
        request: &ServerRequest,
        id: ImageId,
        project: &ProviderProjectId,
    ) -> ProviderResult<String> {
        if !request.spec.own_images.contains(&id) {
            return Ok(id.to_string());
        }
        let image = match self.image(&Acting::Observer, &id.to_string()).await? {
            Some(image) => Some(image),
            None => at_most_one(self.find_images(&Acting::Observer, id).await?.fact, "image")?,
        };
        let missing = || ProviderError::Rejected("the image is not there".to_owned());
        let image = image.ok_or_else(missing)?;
        match self.share_image(&image, project).await {
            // The image's project, and not the server's.
            Err(ProviderError::PrincipalMissing) => Err(missing()),
            shared => shared.map(|()| image.id),
        }
    }

    pub async fn delete_image(&self, request: &ImageRequest) -> ProviderResult<Deletion> {
        let source = match self.identity_of_source(request).await? {
            Some(identity) => match self.principal_of(identity).await {
                Ok(_) => Some(identity),
                // Nothing can have been made of its server.
                Err(ProviderError::PrincipalMissing) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let Some(image) = self.look_at_image(request, source).await?.fact else { return Ok(Deletion::Absent) };
        if !image.is_leaving() {
            let owner = match request.spec.source {
                ImageSource::Import { .. } => Acting::Observer,
                ImageSource::Snapshot { .. } => Acting::Steward(ProviderProjectId(image.owner.clone())),
            };
            let endpoint = delete_image::Request::builder().id(image.id.clone()).build();
            self.take_away(&owner, on(Service::Image, "delete-image", &image.id), endpoint).await?;
        }
        let left = self.look_at_image(request, source).await?.fact;
        Ok(if left.is_none() { Deletion::Absent } else { Deletion::Underway })
    }
}
