//! Replacing a server's image in place: destructive, and so written down before it is done.
//!
//! ```text
//!   (none) ──▶ Initiated ──▶ Rebuilding ──▶ (none)
//!                  ▲              └──▶ Failed ──▶ Initiated, when another image is asked for
//!                  └── armed only by an image that the user asked for, after a fresh look
//! ```
//!
//! Pure: what was seen and what is on record go in, the next step comes out. States only move forward for one image;
//! an order is sent only from `Initiated`, and only when the cloud is quiet and has not followed it already, so an
//! answer that was lost is never an order that is repeated.

use serde::{Deserialize, Serialize};

use super::ids::ImageId;

/// A rebuild under way, or one that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebuild {
    pub target: ImageId,
    pub state: RebuildState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RebuildState {
    /// On record, not sent. Exits: `Rebuilding`, gone.
    Initiated,
    /// The cloud has accepted it. Exits: gone, `Failed`.
    Rebuilding,
    /// Exits: `Initiated`, for another image.
    Failed,
}

/// Everything that the decision looks at. `seen` and what follows it come from a look in the same pass.
#[derive(Clone, Copy, Debug)]
pub struct RebuildView {
    pub marker: Option<Rebuild>,
    /// What the user asks for.
    pub desired: ImageId,
    /// What the server was made or last rebuilt with, on our order.
    pub realised: Option<ImageId>,
    /// `None`: the cloud cannot tell now.
    pub seen: Option<ImageId>,
    pub launched: bool,
    pub errored: bool,
    pub busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildStep {
    /// Nothing is to be rebuilt.
    Nothing,
    /// Write this down, then decide again.
    Note(Rebuild),
    /// Send the order.
    Submit,
    /// The cloud is at work, or cannot be asked yet.
    Wait,
    /// It is done: the marker goes, and this image is what the server has.
    Settled(ImageId),
    /// It failed, and only another image helps.
    Failed,
}

#[must_use]
pub fn next(view: &RebuildView) -> RebuildStep {
    let arm = || RebuildStep::Note(Rebuild { target: view.desired, state: RebuildState::Initiated });
    let Some(marker) = view.marker else {
        return match view.realised {
            Some(realised) if realised == view.desired => RebuildStep::Nothing,
            // Until its first boot the image is still a parameter of the creation.
            _ if !view.launched => RebuildStep::Wait,
            _ => arm(),
        };
    };
    if marker.target != view.desired {
        // Also the way out of a failure.
        return arm();
    }
    let converged = view.seen == Some(view.desired);
    let failed = RebuildStep::Note(Rebuild { state: RebuildState::Failed, ..marker });
    match marker.state {
        RebuildState::Failed => RebuildStep::Failed,
        RebuildState::Rebuilding if view.errored => failed,
        _ if view.seen.is_none() => RebuildStep::Wait,
        RebuildState::Initiated if view.errored && converged => failed,
        _ if view.busy => RebuildStep::Wait,
        _ if converged => RebuildStep::Settled(view.desired),
        // Accepted, and yet it has another image and nothing is going on: somebody else's order came in between.
        RebuildState::Rebuilding => failed,
        RebuildState::Initiated if !view.launched => RebuildStep::Wait,
        RebuildState::Initiated => RebuildStep::Submit,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn image(number: u128) -> ImageId {
        ImageId(Uuid::from_u128(number))
    }

    #[expect(clippy::unnecessary_wraps, reason = "a marker is what is there or not")]
    const fn marker(target: ImageId, state: RebuildState) -> Option<Rebuild> {
        Some(Rebuild { target, state })
    }

    fn running(desired: u128) -> RebuildView {
        RebuildView {
            marker: None,
            desired: image(desired),
            realised: Some(image(1)),
            seen: Some(image(1)),
            launched: true,
            errored: false,
            busy: false,
        }
    }

    #[test]
    fn nothing_is_rebuilt_that_the_user_did_not_ask_for() {
        assert_eq!(next(&running(1)), RebuildStep::Nothing);
        // Somebody changed it behind our back: that is drift, and no reason to destroy a disk.
        assert_eq!(next(&RebuildView { seen: Some(image(9)), ..running(1) }), RebuildStep::Nothing);
        assert_eq!(next(&RebuildView { errored: true, ..running(1) }), RebuildStep::Nothing);
    }

    #[test]
    fn the_way_of_a_rebuild() {
        let armed = Rebuild { target: image(2), state: RebuildState::Initiated };
        assert_eq!(next(&running(2)), RebuildStep::Note(armed));
        let armed = RebuildView { marker: Some(armed), ..running(2) };
        assert_eq!(next(&armed), RebuildStep::Submit);
        let under_way = RebuildView { marker: marker(image(2), RebuildState::Rebuilding), busy: true, ..running(2) };
        assert_eq!(next(&under_way), RebuildStep::Wait);
        let over = RebuildView { busy: false, seen: Some(image(2)), ..under_way };
        assert_eq!(next(&over), RebuildStep::Settled(image(2)));
    }

    #[test]
    fn an_order_whose_answer_was_lost_is_not_sent_again() {
        let lost = RebuildView { marker: marker(image(2), RebuildState::Initiated), busy: true, ..running(2) };
        assert_eq!(next(&lost), RebuildStep::Wait);
        let followed = RebuildView { busy: false, seen: Some(image(2)), ..lost };
        assert_eq!(next(&followed), RebuildStep::Settled(image(2)));
    }

    #[test]
    fn a_failure_stays_until_another_image_is_asked_for() {
        let failing = RebuildView {
            marker: marker(image(2), RebuildState::Rebuilding),
            seen: Some(image(2)),
            errored: true,
            ..running(2)
        };
        let failed = Rebuild { target: image(2), state: RebuildState::Failed };
        assert_eq!(next(&failing), RebuildStep::Note(failed));
        let parked = RebuildView { marker: Some(failed), ..failing };
        assert_eq!(next(&parked), RebuildStep::Failed);
        let other = Rebuild { target: image(3), state: RebuildState::Initiated };
        assert_eq!(next(&RebuildView { desired: image(3), ..parked }), RebuildStep::Note(other));
    }

    #[test]
    fn before_its_first_boot_a_server_is_not_rebuilt() {
        let young = RebuildView { launched: false, ..running(2) };
        assert_eq!(next(&young), RebuildStep::Wait);
        let armed = RebuildView { marker: marker(image(2), RebuildState::Initiated), ..young };
        assert_eq!(next(&armed), RebuildStep::Wait);
    }

    proptest! {
        /// Whatever is seen: an order goes out only for what the user asks for, from `Initiated`, to a quiet server
        /// that has booted and has another image; and a noted state is never behind the one on record.
        #[test]
        fn orders_are_asked_for_and_states_move_forward(
            marked in proptest::option::of((0_u128..3, 0..3_usize)), desired in 0_u128..3,
            realised in proptest::option::of(0_u128..3), seen in proptest::option::of(0_u128..3),
            launched: bool, errored: bool, busy: bool,
        ) {
            let states = [RebuildState::Initiated, RebuildState::Rebuilding, RebuildState::Failed];
            let view = RebuildView {
                marker: marked.map(|(target, state)| Rebuild { target: image(target), state: states[state] }),
                desired: image(desired), realised: realised.map(image), seen: seen.map(image), launched, errored, busy,
            };
            match next(&view) {
                RebuildStep::Submit => {
                    prop_assert_eq!(view.marker, marker(view.desired, RebuildState::Initiated));
                    prop_assert!(launched && !busy && view.seen.is_some() && view.seen != Some(view.desired));
                }
                RebuildStep::Note(noted) => {
                    prop_assert_eq!(noted.target, view.desired);
                    if let Some(before) = view.marker.filter(|before| before.target == noted.target) {
                        prop_assert!(noted.state > before.state);
                    }
                }
                RebuildStep::Settled(image) => prop_assert_eq!(image, view.desired),
                RebuildStep::Nothing | RebuildStep::Wait | RebuildStep::Failed => {}
            }
        }
    }
}
