// SPDX-License-Identifier: GPL-2.0-or-later
// A server of the crate scx_stats whose counters advance with the clock, as those of scx_bpfland
// and scx_layered: changes since the client's previous request, totals, levels and a histogram.
use scx_stats::prelude::*;
use scx_stats_derive::Stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(desc = "layer statistics", _om_prefix = "l_", _om_label = "layer_name")]
struct LayerStats {
    #[stat(desc = "index", _om_skip)]
    index: usize,
    #[stat(desc = "Total CPU utilization (100% means one full CPU)")]
    util: f64,
    #[stat(desc = "count of sched events during the period")]
    total: u64,
    #[stat(desc = "runqueue latency histogram, log2 us buckets 1us..32s, per stats interval")]
    l_runq_lat_hist: Vec<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(top)]
struct Metrics {
    #[stat(desc = "timestamp", _om_skip)]
    at: f64,
    #[stat(desc = "Number of online CPUs")]
    nr_cpus: u64,
    #[stat(desc = "Number of task direct dispatches")]
    nr_direct_dispatches: u64,
    #[stat(desc = "Number of gpu tasks affinitized since scheduler start")]
    since_start: u64,
    #[stat(desc = "Current power mode")]
    power_mode: String,
    #[stat(desc = "per-layer statistics")]
    layers: BTreeMap<String, LayerStats>,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("usage: server SOCKET DISPATCHES_PER_SECOND");
    let rate: f64 = args.next().expect("rate").parse().expect("a number");
    let start = Instant::now();
    let open: Box<dyn StatsOpener<(), ()>> = Box::new(move |_| {
        let mut prev = start.elapsed().as_secs_f64();
        let read: Box<dyn StatsReader<(), ()>> = Box::new(move |_args, _chan| {
            let now = start.elapsed().as_secs_f64();
            let events = (now * rate) as u64 - (prev * rate) as u64;
            prev = now;
            let layer = LayerStats {
                index: 0,
                util: 40.0,
                total: events,
                l_runq_lat_hist: vec![0, events / 2, events - events / 2, 0],
            };
            Metrics {
                at: now,
                nr_cpus: 2,
                nr_direct_dispatches: 3 * events,
                since_start: (now * rate) as u64,
                power_mode: "balanced".into(),
                layers: [("batch".to_string(), layer)].into_iter().collect(),
            }
            .to_json()
        });
        Ok(read)
    });
    let _server = StatsServer::new(
        StatsServerData::new()
            .add_meta(LayerStats::meta())
            .add_meta(Metrics::meta())
            .add_ops("top", StatsOps { open, close: None }),
    )
    .set_path(&path)
    .launch()
    .unwrap();
    loop {
        std::thread::park();
    }
}
