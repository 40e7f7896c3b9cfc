// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the loop, with a module in memory.

use crate::world::{World, pool};
use ddabi::{
    pool::Store,
    ssd::{DeviceState, Waiting},
};
use dddaemon::{event_loop::Request, fake::FakeService, listener::Change};
use ddhostd::{
    module::HostAccess,
    report::{Report, Rule, VmReport},
    runtime::Runtime,
};
use ddnl::{
    Device, Event, HostControl, Result, Side,
    fake::{FakeHost, Fault, HostState},
};
use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::{TcpStream, UnixStream},
    sync::mpsc,
    time::timeout,
};

/// A host and the daemon's connections to it.
struct Bench {
    world: World,
    changes: mpsc::Sender<Change>,
    requests: mpsc::Sender<Request>,
    service: FakeService,
}

struct FakeModule {
    host: FakeHost,
    changes: mpsc::Receiver<Change>,
}

impl HostAccess for FakeModule {
    type Control = FakeHost;

    async fn connect(&mut self) -> Result<FakeHost> {
        match self.host.with(|state| state.fault) {
            Fault::Absent => Err(ddnl::Error::NotLoaded { side: Side::Host }),
            _ => Ok(self.host.clone()),
        }
    }

    async fn changed(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }

    async fn follows_all(&mut self) -> bool {
        true
    }
}

/// Reports of the running daemon.
struct Reports(Lines<BufReader<UnixStream>>);

impl Reports {
    /// Waits for a report.
    async fn until(&mut self, mut wanted: impl FnMut(&Report) -> bool) -> Report {
        loop {
            let line = self.0.next_line().await.unwrap();
            let report: Report = serde_json::from_str(&line.expect("a report")).unwrap();
            if wanted(&report) {
                return report;
            }
        }
    }

    /// Waits until VMs have these weights.
    async fn until_weights(&mut self, weights: &[u32]) -> Report {
        self.until(|report| {
            let vms = report.vms.iter();
            vms.map(|vm| vm.weight).eq(weights.iter().copied())
        })
        .await
    }
}

impl Bench {
    /// Runs the daemon while `act` changes the host, and then stops it.
    fn run<F>(file: &str, begin: impl FnOnce(&World), act: impl FnOnce(Arc<Self>, Reports) -> F)
    where
        F: Future<Output = ()>,
    {
        let (changes, changed) = mpsc::channel(8);
        let (requests, requested) = mpsc::channel(8);
        let bench = Arc::new(Self {
            world: World::new(),
            changes,
            requests,
            service: FakeService::default(),
        });
        bench.write(file);
        begin(&bench.world);
        let module = FakeModule {
            host: bench.world.host.clone(),
            changes: changed,
        };
        let service = bench.service.clone();
        let paths = bench.world.paths();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(async {
            let daemon = Runtime::new(&bench.file(), module, service, paths).unwrap();
            let stop = bench.requests.clone();
            let acting = async {
                let act = async {
                    let stream = loop {
                        match UnixStream::connect(bench.world.path("host.sock")).await {
                            Ok(stream) => break stream,
                            // The daemon is still opening it.
                            Err(_) => tokio::task::yield_now().await,
                        }
                    };
                    let reports = Reports(BufReader::new(stream).lines());
                    act(Arc::clone(&bench), reports).await;
                };
                timeout(Duration::from_secs(60), act)
                    .await
                    .expect("what was waited for did not happen");
                stop.send(Request::Stop).await.unwrap();
            };
            let (result, ()) = tokio::join!(daemon.run(requested), acting);
            result.unwrap();
        });
        assert_eq!(bench.service.said().last().unwrap(), "stopping");
    }

    fn file(&self) -> PathBuf {
        self.world.path("host.toml")
    }

    fn write(&self, text: &str) {
        let socket = self.world.path("host.sock");
        let text = format!("status-socket = \"{}\"\n{text}", socket.display());
        fs::write(self.file(), text).unwrap();
    }

    /// Registers a VM, and announces it.
    async fn register(&self, id: u32, name: &str) {
        self.world.register(id, name);
        self.announce(id).await;
    }

    async fn announce(&self, id: u32) {
        let event = Event {
            kind: ddabi::genl::Event::VmCame as u32,
            vm: Some(id),
            pid: Some(4000 + id),
            pool: None,
            name: None,
        };
        self.changes.send(Change::Event(event)).await.unwrap();
    }

    async fn look(&self) {
        self.changes.send(Change::Lost).await.unwrap();
    }

    async fn reload(&self) {
        self.requests.send(Request::Reload).await.unwrap();
    }
}

const FILE: &str = "default-weight = 50\n[memory]\ncapacity = \"2GiB\"\nfloor = \"256MB\"\n\
                    [[vm]]\nname = \"web-*\"\nweight = 300\n\
                    [[vm]]\ncgroup = \"/machine.slice/mail.scope\"\nweight = 70\n";

#[test]
fn vms_get_their_weights_when_they_register() {
    let begin = |world: &World| world.register(1, "web-1");
    Bench::run(FILE, begin, async |bench, mut reports| {
        reports.until_weights(&[300]).await;
        bench.register(2, "mail").await;
        bench.register(3, "other").await;
        let report = reports.until_weights(&[300, 70, 50]).await;
        assert_eq!(bench.world.weights(), [300, 70, 50]);
        assert!(report.healthy, "{report}");
        assert_eq!(report.vms[1].name.as_deref(), Some("mail"));
        assert_eq!(report.vms[2].rule, Rule::Allow);
        let mail = Rule::Entry {
            line: 9,
            selector: "cgroup `/machine.slice/mail.scope`".into(),
        };
        assert_eq!(report.vms[1].rule, mail);
        let status = bench.world.host.with(|state| state.status.clone());
        assert_eq!((status.capacity, status.floor), (2 << 18, 1 << 16));
        assert_eq!(report.tier.unwrap().capacity_pages, 2 << 18);
        let said = bench.service.said().clone();
        assert!(
            said.contains(&"3 VMs, 2 of them by an entry".to_owned()),
            "{said:?}"
        );
    });
}

#[test]
fn a_weight_set_by_hand_holds_until_the_vm_registers_again() {
    let begin = |world: &World| world.register(1, "web-1");
    Bench::run(FILE, begin, async |bench, mut reports| {
        reports.until_weights(&[300]).await;
        bench.world.host.with(|state| state.vms[0].weight = 7);
        bench.register(2, "mail").await;
        let report = reports.until_weights(&[7, 70]).await;
        assert_eq!(report.vms[0].file_weight, 300);
        assert!(
            report
                .to_string()
                .contains("set by hand (the file says 300)")
        );
        bench.announce(1).await;
        reports.until_weights(&[300, 70]).await;
    });
}

#[test]
fn the_module_may_be_loaded_late_and_again() {
    let begin = |world: &World| world.host.with(|state| state.fault = Fault::Absent);
    Bench::run(FILE, begin, async |bench, mut reports| {
        let report = reports.until(|report| !report.healthy).await;
        assert_eq!(
            report.troubles,
            ["the kernel module doubledecker_host is not loaded"]
        );
        assert_eq!(report.tier, None);
        // It may also be of another version, for example.
        let reason = "Memory tier: not known, the kernel module doubledecker_host is not loaded\n";
        assert!(report.to_string().starts_with(reason), "{report}");
        bench.world.register(1, "web-1");
        bench.world.host.with(|state| state.fault = Fault::None);
        bench.changes.send(Change::Came).await.unwrap();
        reports.until_weights(&[300]).await;
        // It is loaded again, and its VMs have the same numbers as before.
        bench.world.host.with(|state| *state = HostState::default());
        bench.changes.send(Change::Went).await.unwrap();
        bench.world.register(1, "mail");
        bench.changes.send(Change::Came).await.unwrap();
        let report = reports.until_weights(&[70]).await;
        assert_eq!(report.tier.unwrap().capacity_pages, 2 << 18);
    });
}

/// The announcement of the module may have been lost.
#[test]
fn a_module_that_counts_from_zero_is_another_one() {
    let begin = |world: &World| {
        world.register(1, "web-1");
        world.host.with(|state| state.status.counters.calls = 9);
    };
    Bench::run(FILE, begin, async |bench, mut reports| {
        reports.until_weights(&[300]).await;
        bench.world.host.with(|state| {
            state.status.counters.calls = 3;
            state.status.capacity = 1 << 10;
            state.vms[0].weight = 100;
            state.vms[0].ssd_weight = 100;
            state.vms[0].used = 5;
        });
        bench.changes.send(Change::Lost).await.unwrap();
        let is_set = |vm: &VmReport| vm.used_pages == 5 && vm.weight == 300;
        reports.until(|report| report.vms.iter().all(is_set)).await;
        let capacity = bench.world.host.with(|state| state.status.capacity);
        assert_eq!(capacity, 2 << 18);
    });
}

/// An administrator has set a weight to zero and lowered the capacity in an emergency, and then
/// saves the weight of another VM.
#[test]
fn a_new_file_undoes_no_manual_change_of_other_settings() {
    let begin = |world: &World| {
        world.register(1, "web-1");
        world.register(2, "mail");
    };
    Bench::run(FILE, begin, async |bench, mut reports| {
        reports.until_weights(&[300, 70]).await;
        bench.world.host.with(|state| {
            (state.vms[0].weight, state.vms[0].ssd_weight) = (0, 0);
            state.status.capacity = 1 << 10;
        });
        bench.write(&FILE.replace("70", "80"));
        bench.reload().await;
        reports.until_weights(&[0, 80]).await;
        let capacity = |state: &mut HostState| state.status.capacity;
        assert_eq!(bench.world.host.with(capacity), 1 << 10);
        bench.write(&FILE.replace("2GiB", "1GiB"));
        bench.reload().await;
        reports.until_weights(&[0, 70]).await;
        assert_eq!(bench.world.host.with(capacity), 1 << 18);
    });
}

/// The same file may be used on machines with different memory.
#[test]
fn sizes_that_this_machine_cannot_have_do_not_hold_up_the_others() {
    let begin = |world: &World| world.register(1, "web-1");
    let file = format!("{}[ssd]\ndeadline-ms = 50\n", FILE.replace("2GiB", "9GiB"));
    Bench::run(&file, begin, async |bench, mut reports| {
        let report = reports.until_weights(&[300]).await;
        assert!(!report.healthy && report.refused.is_none(), "{report}");
        let trouble = "the sizes in [memory] cannot be set: a capacity of 9.00 GiB is more than \
                       this machine's memory";
        assert!(report.troubles[0].starts_with(trouble), "{report}");
        let deadline = bench.world.host.with(|state| state.status.deadline);
        assert_eq!(deadline, 50_000);
        bench.write(FILE);
        bench.reload().await;
        let report = reports.until(|report| report.healthy).await;
        assert_eq!(report.tier.unwrap().capacity_pages, 2 << 18);
        assert_eq!(report.file, bench.file());
    });
}

#[test]
fn a_new_file_is_applied_and_a_wrong_one_is_not() {
    let begin = |world: &World| world.register(1, "web-1");
    Bench::run(FILE, begin, async |bench, mut reports| {
        reports.until_weights(&[300]).await;
        bench.write(&FILE.replace("300", "30").replace("2GiB", "1GiB"));
        bench.reload().await;
        let report = reports.until_weights(&[30]).await;
        assert_eq!((report.loads, report.refused), (2, None));
        bench.write("nonsense = 1\n");
        bench.reload().await;
        let report = reports.until(|report| report.loads == 3).await;
        let refused = report.refused.clone().unwrap();
        assert!(
            refused.contains("line 2, column 1: unknown key `nonsense`"),
            "{refused}"
        );
        assert!(!report.healthy && report.to_string().contains("The file was refused"));
        // The old file is still in force.
        bench.register(2, "web-2").await;
        reports.until_weights(&[30, 30]).await;
        let capacity = bench.world.host.with(|state| state.status.capacity);
        assert_eq!(capacity, 1 << 18);
        let said = bench.service.said().clone();
        let reloads = said.iter().filter(|one| *one == "reloading").count();
        assert_eq!(reloads, 2);
    });
}

#[test]
fn vms_without_an_entry_are_denied() {
    let begin = |world: &World| {
        world.register(1, "web");
        world.register(2, "stranger");
        let parameter = "sys/module/doubledecker_host/parameters/default_weight";
        world.write(parameter, "100\n");
    };
    let file = "default = \"deny\"\n[[vm]]\nname = \"web\"\nweight = 100\n";
    Bench::run(file, begin, async |bench, mut reports| {
        let report = reports.until_weights(&[100, 0]).await;
        assert_eq!(report.vms[1].rule, Rule::Deny);
        assert!(report.healthy, "{report}");
        let warning = &report.warnings[0];
        assert!(
            warning.contains("options doubledecker_host default_weight=0"),
            "{warning}"
        );
        let parameter = "sys/module/doubledecker_host/parameters/default_weight";
        bench.world.write(parameter, "0\n");
        bench.reload().await;
        let report = reports.until(|report| report.loads == 2).await;
        assert!(report.warnings.is_empty());
    });
}

#[test]
fn refused_settings_are_reported_and_tried_again() {
    let begin = |world: &World| world.host.with(|state| state.fault = Fault::Refusing(16));
    Bench::run(FILE, begin, async |bench, mut reports| {
        bench.register(1, "web-1").await;
        let report = reports.until(|report| report.troubles.len() == 2).await;
        assert!(report.troubles[0].starts_with("the sizes in [memory] cannot be set: "));
        assert!(report.troubles[1].starts_with("VM 1: the kernel refused: "));
        bench.world.host.with(|state| state.fault = Fault::None);
        bench.changes.send(Change::Lost).await.unwrap();
        reports.until(|report| report.healthy).await;
        assert_eq!(bench.world.weights(), [300]);
    });
}

/// Returns an answer of the page.
async fn scrape(address: SocketAddr, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page
}

/// The figures of many containers must not delay weights.
#[test]
fn weights_are_set_before_figures_are_read() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let begin = |world: &World| world.register(1, "web-1");
    let file = format!("metrics = \"{address}\"\ndefault-weight = 50\n");
    Bench::run(&file, begin, async |bench, mut reports| {
        reports.until_weights(&[50]).await;
        bench.world.host.with(|state| state.asked.clear());
        bench
            .world
            .host
            .with(|state| (state.vms[0].weight, state.vms[0].ssd_weight) = (1, 1));
        bench.announce(1).await;
        reports.until_weights(&[50]).await;
        let asked = bench.world.host.with(|state| state.asked.clone());
        assert_eq!(asked, ["set_vm", "pools"]);
    });
}

/// The port may be in use when the daemon starts.
#[test]
fn a_metrics_server_that_cannot_start_is_reported_and_tried_again() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let file = format!("metrics = \"{address}\"\n");
    Bench::run(
        &file,
        |_| {},
        async |bench, mut reports| {
            let report = reports.until(|report| !report.healthy).await;
            let trouble = format!("no metrics at {address}: ");
            assert!(report.troubles[0].starts_with(&trouble), "{report}");
            drop(other);
            bench.look().await;
            reports.until(|report| report.healthy).await;
            let page = scrape(address, "text/plain").await;
            assert!(page.contains("\nddhostd_healthy 1\n"), "{page}");
        },
    );
}

#[test]
fn metrics_are_served() {
    let begin = |world: &World| {
        world.register(1, "web-1");
        let mut host = world.host.clone();
        HostControl::add_device(&mut host, "/dev/sdb").unwrap();
        let web = pool(1, 0, "web", Store::Memory);
        host.with(|state| state.pools.push(web));
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let file = format!("metrics = \"{address}\"\n{FILE}");
    Bench::run(&file, begin, async |bench, mut reports| {
        reports.until_weights(&[300]).await;
        let page = scrape(address, "text/plain").await;
        let vm = "vm=\"1\",vm_name=\"web-1\"";
        for line in [
            format!("\nddhostd_vm_weight{{{vm}}} 300\n"),
            format!("\nddhostd_vm_hit_bytes_total{{{vm}}} 20480\n"),
            "\nddhostd_ssd_state{device=\"0\",path=\"/dev/sdb\",state=\"active\"} 1\n".into(),
        ] {
            assert!(page.contains(&line), "{line} in {page}");
        }
        let page = scrape(address, "application/openmetrics-text").await;
        assert!(page.ends_with("\n# EOF\n"), "{page}");
        // The counts of a removed container stay in the sums of its VM.
        bench.world.host.with(|state| state.pools.clear());
        bench.changes.send(Change::Lost).await.unwrap();
        reports.until(|_| true).await;
        let page = scrape(address, "text/plain").await;
        assert!(
            !page.contains("ddhostd_container_hit_bytes_total{"),
            "{page}"
        );
        let line = format!("\nddhostd_vm_hit_bytes_total{{{vm}}} 20480\n");
        assert!(page.contains(&line), "{page}");
    });
}

const DEVICES: &str = "[ssd]\ndeadline-ms = 50\nwait = \"host\"\n\
                       [[ssd.device]]\npath = \"/dev/vg0/a\"\nwrite-budget = \"20M\"\n\
                       [[ssd.device]]\npath = \"/dev/vg0/b\"\n";

/// The states of the devices of the file.
fn states(report: &Report) -> Vec<Option<&str>> {
    let devices = report.devices.iter();
    devices.map(|device| device.state.as_deref()).collect()
}

/// Returns a device of the tier. The daemon adds devices in no order, because each open may be
/// slow.
fn device<'a>(state: &'a mut HostState, path: &str) -> &'a mut Device {
    let mut devices = state.devices.iter_mut();
    devices.find(|device| device.path == path).unwrap()
}

#[test]
fn devices_are_added_when_they_are_there_and_empty() {
    let begin = |world: &World| world.write("dev/vg0/a", "\0\0");
    Bench::run(DEVICES, begin, async |bench, mut reports| {
        let a_only = [Some("active"), None];
        let report = reports.until(|report| states(report) == a_only).await;
        assert_eq!(report.troubles, ["device /dev/vg0/b: it does not exist"]);
        assert!(
            report
                .to_string()
                .contains("Device /dev/vg0/b: not in the SSD tier\n")
        );
        let mut state = bench.world.host.with(|state| state.clone());
        assert_eq!(state.devices.len(), 1);
        assert_eq!(device(&mut state, "/dev/vg0/a").stats.write_budget, 5120);
        assert_eq!(state.status.deadline, 50_000);
        assert_eq!(state.status.waiting, Waiting::Host);
        bench.world.write("dev/vg0/b", "\0data");
        bench.look().await;
        let has_data = |report: &Report| report.troubles[0].contains("it contains data");
        let report = reports.until(has_data).await;
        assert_eq!(states(&report), a_only);
        bench.world.write("dev/vg0/b", "\0");
        bench.look().await;
        let report = reports.until(|report| report.healthy).await;
        assert_eq!(states(&report), [Some("active"); 2]);
    });
}

#[test]
fn a_device_removed_by_hand_stays_removed() {
    let begin = |world: &World| {
        world.write("dev/vg0/a", "");
        world.write("dev/vg0/b", "");
    };
    Bench::run(DEVICES, begin, async |bench, mut reports| {
        reports
            .until(|report| report.healthy && states(report) == [Some("active"); 2])
            .await;
        bench.world.host.with(|state| {
            state.devices.retain(|device| device.path == "/dev/vg0/b");
            device(state, "/dev/vg0/b").stats.write_budget = 7;
        });
        bench.look().await;
        let report = reports.until(|report| states(report)[0].is_none()).await;
        assert!(report.healthy, "{report}");
        bench.look().await;
        let report = reports.until(|report| states(report)[0].is_none()).await;
        assert!(report.healthy, "{report}");
        // The file is read again with another weight.
        bench.write(&format!("default-weight = 5\n{DEVICES}"));
        bench.reload().await;
        let report = reports.until(|report| report.loads == 2).await;
        assert_eq!(states(&report), [None, Some("active")]);
        assert!(report.healthy, "{report}");
        // The module is loaded again.
        bench.world.host.with(|state| {
            state.status.counters.calls = 0;
            state.status.deadline = 1;
        });
        bench.changes.send(Change::Came).await.unwrap();
        reports
            .until(|report| states(report) == [Some("active"); 2])
            .await;
        let deadline = bench.world.host.with(|state| state.status.deadline);
        assert_eq!(deadline, 50_000);
        // A budget that the file does not have is left alone.
        let budget = |state: &mut HostState| device(state, "/dev/vg0/b").stats.write_budget;
        assert_eq!(bench.world.host.with(budget), 7);
    });
}

#[test]
fn a_device_that_was_unplugged_is_added_when_it_is_back() {
    let begin = |world: &World| {
        world.write("dev/vg0/a", "");
        world.write("dev/vg0/b", "");
    };
    Bench::run(DEVICES, begin, async |bench, mut reports| {
        reports
            .until(|report| states(report) == [Some("active"); 2])
            .await;
        let file = bench.world.path("dev/vg0/b");
        fs::remove_file(&file).unwrap();
        bench
            .world
            .host
            .with(|state| device(state, "/dev/vg0/b").state = DeviceState::Failed);
        bench.look().await;
        let report = reports.until(|report| !report.healthy).await;
        assert_eq!(states(&report), [Some("active"), Some("failed")]);
        bench.world.write("dev/vg0/b", "");
        bench.look().await;
        reports
            .until(|report| report.healthy && states(report) == [Some("active"); 2])
            .await;
        assert_eq!(bench.world.host.with(|state| state.devices.len()), 2);
        // A module that is loaded again has none of them.
        bench.world.host.with(|state| *state = HostState::default());
        bench.changes.send(Change::Went).await.unwrap();
        reports
            .until(|report| report.healthy && states(report) == [Some("active"); 2])
            .await;
        assert_eq!(bench.world.host.with(|state| state.devices.len()), 2);
    });
}
