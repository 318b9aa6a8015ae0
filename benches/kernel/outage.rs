//! Creates in one region, without and with another region's cloud being down.

use std::sync::Arc;
use std::time::Duration;

use regent::providers::simulated::call::CloudError;
use regent::providers::simulated::engine::faults::{Effect, Fault};

use super::plane::Plane;
use super::{folder, judge, load, milliseconds, runtime};

pub fn run() {
    println!("outage (200/s for ten seconds each)");
    let runtime = runtime();
    let (calm, outage) = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("outage"), false).await);
        let (down, up) = (plane.regions[0], plane.regions[1]);
        let calm = load::open_loop(&plane, up, 200, 2000).await;
        let error = Effect::Error { error: CloudError::Unavailable };
        plane.clouds.handle(down).unwrap().add_faults(vec![Fault::always("*", error)]).await.unwrap();
        load::closed_loop(&plane, down, 8, 1000).await;
        let outage = load::open_loop(&plane, up, 200, 2000).await;
        (calm, outage)
    });
    let (without, with) = (calm.latencies.percentile(99), outage.latencies.percentile(99));
    println!(
        "  create p99 without {:.2} ms, with 1,000 networks waiting for the other region {:.2} ms",
        milliseconds(without),
        milliseconds(with)
    );
    judge("p99 stays within 1.5 x", with <= without.mul_f64(1.5));
    runtime.shutdown_timeout(Duration::from_secs(1));
}
