//! Giving a server another flavor in place: it stops the guest and may fail half-way, and so is written down first.
//!
//! ```text
//!   (none) ──▶ Initiated ──▶ Resizing ──▶ (none), once the cloud has been told to keep it
//!                  ▲             └──▶ Failed ──▶ Initiated, when another flavor is asked for
//!                  │                       └──▶ (none), when that is the one it is on
//!                  └── armed only by a flavor that the user asked for, after a fresh look
//! ```
//!
//! Pure: what was seen and what is on record go in, the next step comes out. There are two orders. The first begins the
//! resize; many clouds then keep the old machine aside and wait to be told that the new one is good, and until they are
//! told they do nothing else. Each is sent only when a look shows that it is due: an answer that was lost is never an
//! order that is repeated. A marker is not replaced while its own order may be out, so that whatever waits for a
//! confirmation is known to be ours.

use serde::{Deserialize, Serialize};

use super::ids::FlavorId;

/// A resize under way, or one that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resize {
    pub target: FlavorId,
    pub state: ResizeState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ResizeState {
    /// On record, not sent. Exits: `Resizing`, `Failed`, gone.
    Initiated,
    /// The cloud has accepted it. Exits: gone, `Failed`, `Initiated` for another flavor.
    Resizing,
    /// Exits: `Initiated`, for another flavor; gone, for the one that it is on.
    Failed,
}

/// Everything that the decision looks at. `seen` and what follows it come from a look in the same pass.
#[expect(clippy::struct_excessive_bools, reason = "each is something that a look shows, whatever the others are")]
#[derive(Clone, Copy, Debug)]
pub struct ResizeView {
    pub marker: Option<Resize>,
    /// What the user asks for.
    pub desired: FlavorId,
    /// What the server was made or last resized with, on our order. `None`: its cloud has never told.
    pub realised: Option<FlavorId>,
    /// `None`: the cloud cannot tell now.
    pub seen: Option<FlavorId>,
    pub launched: bool,
    pub errored: bool,
    /// The cloud is at work on it.
    pub busy: bool,
    /// The cloud has resized it and waits to be told to keep it so.
    pub unconfirmed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeStep {
    /// Nothing is to be resized.
    Nothing,
    /// Write this down, then decide again.
    Note(Resize),
    /// Send the order.
    Submit,
    /// Tell the cloud to keep what it has made.
    Confirm,
    /// The cloud is at work, or cannot be asked yet.
    Wait,
    /// It is done: the marker goes, and this flavor is what the server has.
    Settled(FlavorId),
    /// It failed, and only another flavor helps.
    Failed,
}

#[must_use]
pub fn next(view: &ResizeView) -> ResizeStep {
    let arm = ResizeStep::Note(Resize { target: view.desired, state: ResizeState::Initiated });
    let Some(marker) = view.marker else {
        return match view.realised {
            // A cloud that does not tell flavors would never be seen to have followed an order.
            None => ResizeStep::Nothing,
            Some(realised) if realised == view.desired => ResizeStep::Nothing,
            // Until its first boot there is nothing to resize: what fails to boot is made again, as is asked for then.
            Some(_) if !view.launched => ResizeStep::Wait,
            Some(_) => arm,
        };
    };
    let noted = |state| ResizeStep::Note(Resize { state, ..marker });
    let asked_for = marker.target == view.desired;
    match marker.state {
        ResizeState::Failed if asked_for => return ResizeStep::Failed,
        ResizeState::Resizing if asked_for && view.errored => return noted(ResizeState::Failed),
        _ => {}
    }
    let Some(seen) = view.seen.filter(|_| !view.busy) else { return ResizeStep::Wait };
    if view.unconfirmed {
        // Also when the user has changed their mind: until it is told, the cloud takes no other order.
        return match marker.state {
            // Somebody else's order came in between: they, and not we, know whether it is good.
            _ if seen != marker.target => ResizeStep::Wait,
            // The answer was lost, and the order was not.
            ResizeState::Initiated => noted(ResizeState::Resizing),
            ResizeState::Resizing | ResizeState::Failed => ResizeStep::Confirm,
        };
    }
    let converged = seen == view.desired;
    match marker.state {
        // Also the ways out of a failure.
        _ if !asked_for && !converged => arm,
        ResizeState::Initiated if asked_for && converged && view.errored => noted(ResizeState::Failed),
        _ if converged => ResizeStep::Settled(view.desired),
        // Accepted, and yet it has another flavor and nothing is going on: the cloud has given up.
        ResizeState::Resizing => noted(ResizeState::Failed),
        ResizeState::Failed => ResizeStep::Failed,
        // What has failed takes no such order, and one that was accepted would show its flavor.
        ResizeState::Initiated if !view.launched || view.errored => ResizeStep::Wait,
        ResizeState::Initiated => ResizeStep::Submit,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn flavor(number: u128) -> FlavorId {
        FlavorId(Uuid::from_u128(number))
    }

    fn marker(target: u128, state: ResizeState) -> Resize {
        Resize { target: flavor(target), state }
    }

    fn running(desired: u128) -> ResizeView {
        ResizeView {
            marker: None,
            desired: flavor(desired),
            realised: Some(flavor(1)),
            seen: Some(flavor(1)),
            launched: true,
            errored: false,
            busy: false,
            unconfirmed: false,
        }
    }

    fn marked(target: u128, state: ResizeState) -> ResizeView {
        ResizeView { marker: Some(marker(target, state)), ..running(target) }
    }

    #[test]
    fn nothing_is_resized_that_the_user_did_not_ask_for() {
        assert_eq!(next(&running(1)), ResizeStep::Nothing);
        // Somebody changed it behind our back, and perhaps is not done with it: that is drift.
        let drifted = ResizeView { seen: Some(flavor(9)), ..running(1) };
        assert_eq!(next(&drifted), ResizeStep::Nothing);
        assert_eq!(next(&ResizeView { unconfirmed: true, ..drifted }), ResizeStep::Nothing);
        assert_eq!(next(&ResizeView { errored: true, ..running(1) }), ResizeStep::Nothing);
        assert_eq!(next(&ResizeView { realised: None, seen: None, ..running(2) }), ResizeStep::Nothing);
    }

    #[test]
    fn the_way_of_a_resize() {
        assert_eq!(next(&running(2)), ResizeStep::Note(marker(2, ResizeState::Initiated)));
        assert_eq!(next(&marked(2, ResizeState::Initiated)), ResizeStep::Submit);
        let under_way = ResizeView { busy: true, ..marked(2, ResizeState::Resizing) };
        assert_eq!(next(&under_way), ResizeStep::Wait);
        let made = ResizeView { busy: false, unconfirmed: true, seen: Some(flavor(2)), ..under_way };
        assert_eq!(next(&made), ResizeStep::Confirm);
        assert_eq!(next(&ResizeView { unconfirmed: false, ..made }), ResizeStep::Settled(flavor(2)));
    }

    #[test]
    fn an_order_whose_answer_was_lost_is_not_sent_again() {
        let lost = ResizeView { busy: true, ..marked(2, ResizeState::Initiated) };
        assert_eq!(next(&lost), ResizeStep::Wait);
        let followed = ResizeView { busy: false, unconfirmed: true, seen: Some(flavor(2)), ..lost };
        assert_eq!(next(&followed), ResizeStep::Note(marker(2, ResizeState::Resizing)));
        // A cloud that waits for nobody, or a confirmation whose answer was lost.
        assert_eq!(next(&ResizeView { unconfirmed: false, ..followed }), ResizeStep::Settled(flavor(2)));
    }

    #[test]
    fn a_changed_mind_waits_until_what_was_begun_is_over_and_confirmed() {
        for state in [ResizeState::Initiated, ResizeState::Resizing] {
            let other = ResizeView { desired: flavor(3), busy: true, ..marked(2, state) };
            assert_eq!(next(&other), ResizeStep::Wait, "{state:?}: whose it is would be forgotten");
        }
        let made = ResizeView { desired: flavor(3), seen: Some(flavor(2)), ..marked(2, ResizeState::Resizing) };
        assert_eq!(next(&ResizeView { unconfirmed: true, ..made }), ResizeStep::Confirm);
        assert_eq!(next(&made), ResizeStep::Note(marker(3, ResizeState::Initiated)));
        let back = ResizeView { desired: flavor(1), ..marked(2, ResizeState::Initiated) };
        assert_eq!(next(&back), ResizeStep::Settled(flavor(1)), "it was not sent, and it is on that flavor");
    }

    #[test]
    fn what_somebody_else_has_begun_is_not_ours_to_confirm() {
        let strange = ResizeView { seen: Some(flavor(9)), unconfirmed: true, ..marked(2, ResizeState::Initiated) };
        assert_eq!(next(&strange), ResizeStep::Wait);
        assert_eq!(next(&ResizeView { unconfirmed: false, ..strange }), ResizeStep::Submit);
    }

    #[test]
    fn a_failure_stays_until_another_flavor_is_asked_for() {
        let failing = ResizeView { errored: true, ..marked(2, ResizeState::Resizing) };
        let failed = marker(2, ResizeState::Failed);
        for seen in [None, Some(flavor(1)), Some(flavor(2))] {
            assert_eq!(next(&ResizeView { seen, ..failing }), ResizeStep::Note(failed));
        }
        let given_up = ResizeView { errored: false, ..failing };
        assert_eq!(next(&given_up), ResizeStep::Note(failed), "it is well, on the flavor that it had");
        let lost = ResizeView { errored: true, seen: Some(flavor(2)), ..marked(2, ResizeState::Initiated) };
        assert_eq!(next(&lost), ResizeStep::Note(failed));
        let parked = ResizeView { marker: Some(failed), ..failing };
        assert_eq!(next(&parked), ResizeStep::Failed);
        let other = ResizeStep::Note(marker(3, ResizeState::Initiated));
        assert_eq!(next(&ResizeView { desired: flavor(3), ..parked }), other);
        let back = ResizeView { desired: flavor(1), ..parked };
        assert_eq!(next(&back), ResizeStep::Settled(flavor(1)), "it is on it, although it is not well");
    }

    #[test]
    fn a_server_that_has_failed_or_never_booted_is_not_resized() {
        let young = ResizeView { launched: false, ..running(2) };
        assert_eq!(next(&young), ResizeStep::Wait);
        let armed = marked(2, ResizeState::Initiated);
        for view in [ResizeView { launched: false, ..armed }, ResizeView { errored: true, ..armed }] {
            assert_eq!(next(&view), ResizeStep::Wait);
        }
    }

    const STATES: [ResizeState; 3] = [ResizeState::Initiated, ResizeState::Resizing, ResizeState::Failed];

    proptest! {
        /// Whatever is seen: an order goes out only for what the user asks for, from `Initiated`, to a quiet server
        /// that has booted and has another flavor; a confirmation only for what is on record as ours; a noted state is
        /// never behind the one on record; and a marker is replaced only when the cloud is quiet.
        #[test]
        fn orders_are_asked_for_and_states_move_forward(
            marked in proptest::option::of((0_u128..3, 0..3_usize)), desired in 0_u128..3,
            realised in proptest::option::of(0_u128..3), seen in proptest::option::of(0_u128..3),
            launched: bool, errored: bool, busy: bool, unconfirmed: bool,
        ) {
            let view = ResizeView {
                marker: marked.map(|(target, state)| marker(target, STATES[state])),
                desired: flavor(desired), realised: realised.map(flavor), seen: seen.map(flavor),
                launched, errored, busy, unconfirmed,
            };
            let quiet = !busy && !unconfirmed;
            match next(&view) {
                ResizeStep::Submit => {
                    prop_assert_eq!(view.marker, Some(marker(desired, ResizeState::Initiated)));
                    prop_assert!(launched && quiet && !errored && seen.is_some() && seen != Some(desired));
                }
                ResizeStep::Confirm => {
                    let begun = view.marker.filter(|marker| marker.state > ResizeState::Initiated);
                    prop_assert!(unconfirmed && !busy && seen.is_some());
                    prop_assert_eq!(begun.map(|marker| marker.target), view.seen);
                }
                ResizeStep::Note(noted) => {
                    if let Some(before) = view.marker.filter(|before| before.target == noted.target) {
                        prop_assert!(noted.state > before.state);
                    } else {
                        prop_assert_eq!(noted, marker(desired, ResizeState::Initiated));
                        prop_assert!(quiet || view.marker.is_none());
                    }
                }
                ResizeStep::Settled(settled) => {
                    prop_assert_eq!((settled, view.seen), (view.desired, Some(view.desired)));
                    prop_assert!(quiet);
                }
                ResizeStep::Nothing | ResizeStep::Wait | ResizeStep::Failed => {}
            }
        }

        /// A cloud in good health, a user who changes their mind, and a process that loses answers and dies before it
        /// has noted them: every order is taken, none is sent twice, and it ends on what was last asked for.
        #[test]
        fn every_walk_ends_on_what_was_last_asked_for(
            events in proptest::collection::vec((0..6_u8, 0_u128..3), 0..60),
        ) {
            let mut walk = Walk { marker: None, realised: 1, desired: 1, on: 1, at: At::Rest, orders: 0 };
            let mut asked = 0;
            for (event, number) in events {
                match event {
                    0 => {
                        asked += u32::from(walk.desired != number);
                        walk.desired = number;
                    }
                    1 | 2 => walk.time_passes(),
                    3 => walk.step(true),
                    _ => walk.step(false),
                }
            }
            for _ in 0..20 {
                walk.time_passes();
                walk.step(false);
            }
            prop_assert_eq!((walk.on, walk.realised, walk.at, walk.marker), (walk.desired, walk.desired, At::Rest, None));
            prop_assert!(walk.orders <= asked, "{} orders for {asked} wishes", walk.orders);
        }
    }

    /// Where a cloud is with a server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum At {
        Rest,
        Work,
        Question,
    }

    /// A record and a cloud.
    struct Walk {
        marker: Option<Resize>,
        realised: u128,
        desired: u128,
        on: u128,
        at: At,
        orders: u32,
    }

    impl Walk {
        fn time_passes(&mut self) {
            if self.at == At::Work {
                self.at = At::Question;
            }
        }

        /// One decision, carried out. A process that `dies` does so before it has noted what came of an order.
        fn step(&mut self, dies: bool) {
            let view = ResizeView {
                marker: self.marker,
                desired: flavor(self.desired),
                realised: Some(flavor(self.realised)),
                seen: Some(flavor(self.on)),
                launched: true,
                errored: false,
                busy: self.at == At::Work,
                unconfirmed: self.at == At::Question,
            };
            match next(&view) {
                ResizeStep::Note(noted) => self.marker = Some(noted),
                ResizeStep::Submit => {
                    assert_eq!(self.at, At::Rest, "the cloud would refuse it");
                    (self.on, self.at, self.orders) = (self.desired, At::Work, self.orders + 1);
                    if !dies {
                        self.marker = Some(marker(self.desired, ResizeState::Resizing));
                    }
                }
                ResizeStep::Confirm => {
                    assert_eq!(self.at, At::Question, "the cloud would refuse it");
                    self.at = At::Rest;
                }
                ResizeStep::Settled(_) => (self.marker, self.realised) = (None, self.desired),
                ResizeStep::Nothing | ResizeStep::Wait => {}
                ResizeStep::Failed => panic!("nothing fails here"),
            }
        }
    }
}
