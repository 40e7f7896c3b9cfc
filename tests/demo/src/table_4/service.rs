// SPDX-License-Identifier: GPL-2.0-only

//! The four services as packaged by Debian, and their questions.

use anyhow::Result;
use ddlab::{Command, Guest, Running, wait};

/// A service in a separate container.
pub(super) struct Service {
    /// Its container.
    pub(super) name: &'static str,
    /// Description.
    pub(super) about: &'static str,
    /// Questions a second that clients ask while policyd adjusts: together a fraction of what an
    /// emulated machine can answer.
    pub(super) rate: u32,
    /// Number of different questions.
    of: u64,
    question: &'static str,
    answer: &'static str,
    /// The client: arguments of `ddhelper ask`.
    client: &'static str,
    /// Line of shell that touches all its data.
    pub(super) touch: &'static str,
    /// Makes its data and starts it.
    start: fn(&Guest) -> Result<Option<Running>>,
}

/// While this file exists, clients send the next request as soon as they are answered.
pub(super) const UNPACED: &str = "/run/unpaced";
/// Files of the web server: names and bytes.
pub(super) const PAGES: u64 = 1024;
pub(super) const PAGE_LEN: u64 = 64 << 10;
/// Keys of Redis, of 1000 bytes each.
const KEYS: u64 = 84_000;
/// Rows of MariaDB, two to a page of 16 KiB.
const ROWS: u64 = 9_500;
/// Rows of SQLite, one to a page of 32 KiB.
const RECORDS: u64 = 3_500;

/// Two services use memory, and two read files.
pub(super) const SERVICES: [Service; 4] = [
    Service {
        name: "redis",
        about: "Redis, 96 MiB of memory",
        rate: 16,
        of: KEYS,
        question: "GET key:{}",
        answer: "value:{}",
        client: "-- redis-cli -s /run/redis.sock",
        touch: "redis-cli -s /run/redis.sock debug digest",
        start: redis,
    },
    Service {
        name: "mariadb",
        about: "MariaDB, 75 MiB of a table in its own cache",
        rate: 8,
        of: ROWS,
        question: "SELECT LENGTH(v) FROM t WHERE id = {};",
        answer: "7900",
        client: "-- mariadb --no-defaults -S /run/db.sock --batch --skip-column-names --unbuffered d",
        touch: "mariadb --no-defaults -S /run/db.sock d -e 'CHECKSUM TABLE t'",
        start: mariadb,
    },
    Service {
        name: "web",
        about: "nginx, 64 MiB of files",
        rate: 8,
        of: PAGES,
        question: "/{}",
        answer: "",
        client: "--web /run/web.sock",
        touch: "cat /srv/web/[0-9]*",
        start: nginx,
    },
    Service {
        name: "store",
        about: "SQLite, a file of 112 MiB",
        rate: 8,
        of: RECORDS,
        question: "SELECT length(v) FROM t WHERE id = {} + 1;",
        answer: "32000",
        // The library is the service, so that its program runs in the container.
        client: "-- sh -c 'echo $$ > /sys/fs/cgroup/store/cgroup.procs; \
                 exec sqlite3 -cmd \"PRAGMA cache_size = 8\" /srv/store/db'",
        touch: "cat /srv/store/db",
        start: sqlite,
    },
];

impl Service {
    /// Makes its data and starts it. Returns `None` if its client runs it.
    pub(super) fn start(&self, guest: &Guest) -> Result<Option<Running>> {
        (self.start)(guest)
    }

    /// Starts its client.
    pub(super) fn ask(&self, guest: &Guest) -> Result<Running> {
        let Self {
            rate,
            of,
            question,
            answer,
            client,
            ..
        } = self;
        let line = format!(
            "exec ddhelper ask --rate {rate} --unpaced-while {UNPACED} --of {of} \
             --question '{question}' --answer '{answer}' --metrics {} {client}",
            self.metrics()
        );
        guest.spawn(&Command::shell(line).cgroup("clients"))
    }

    /// Returns the path at which the number of its answers is published.
    pub(super) fn metrics(&self) -> String {
        format!("/run/{}.prom", self.name)
    }
}

fn redis(guest: &Guest) -> Result<Option<Running>> {
    let line = "exec redis-server --port 0 --unixsocket /run/redis.sock --save '' \
                --appendonly no --enable-debug-command yes";
    let running = guest.spawn(&Command::shell(line).cgroup("redis"))?;
    let cli = "redis-cli -s /run/redis.sock";
    answers(guest, "Redis", &format!("{cli} ping | grep -q PONG"))?;
    guest.shell(format!("{cli} debug populate {KEYS} key 1000"))?;
    Ok(Some(running))
}

fn mariadb(guest: &Guest) -> Result<Option<Running>> {
    guest.shell("cp -r /var/lib/mysql /srv/db/data")?;
    guest.drop_caches(true)?;
    // Only requests may move its pages.
    let line = "exec mariadbd --no-defaults --user=root --datadir=/srv/db/data \
                --socket=/run/db.sock --skip-networking --skip-grant-tables --skip-log-bin \
                --performance-schema=OFF --innodb-buffer-pool-size=96M \
                --innodb-log-file-size=8M --innodb-log-buffer-size=2M \
                --aria-pagecache-buffer-size=1M --innodb-doublewrite=OFF \
                --innodb-flush-log-at-trx-commit=0 --innodb-adaptive-hash-index=OFF \
                --innodb-stats-auto-recalc=OFF --innodb-use-native-aio=OFF \
                --innodb-buffer-pool-load-at-startup=OFF";
    let running = guest.spawn(&Command::shell(line).cgroup("mariadb"))?;
    let cli = "mariadb --no-defaults -S /run/db.sock";
    answers(guest, "MariaDB", &format!("{cli} -e 'SELECT 1' 2>&1"))?;
    guest.shell(format!(
        "{cli} -e 'CREATE DATABASE d; USE d; \
         CREATE TABLE t (id INT PRIMARY KEY, v VARBINARY(7900) NOT NULL) ENGINE=InnoDB; \
         INSERT INTO t SELECT seq, REPEAT(CHAR(seq % 250 + 1), 7900) FROM seq_0_to_{}'",
        ROWS - 1
    ))?;
    Ok(Some(running))
}

fn nginx(guest: &Guest) -> Result<Option<Running>> {
    let file = "daemon off; user root; worker_processes 1; pid /run/web.pid; \
                error_log stderr; events { worker_connections 16; } \
                http { access_log off; sendfile on; keepalive_requests 1000000000; \
                keepalive_timeout 1d; \
                server { listen unix:/run/web.sock; root /srv/web; } }";
    guest.write_file("/run/web.conf", file)?;
    let server = Command::new(["nginx", "-c", "/run/web.conf"]);
    let running = guest.spawn(&server.cgroup("web"))?;
    answers(guest, "nginx", "test -S /run/web.sock")?;
    Ok(Some(running))
}

fn sqlite(guest: &Guest) -> Result<Option<Running>> {
    guest.shell(format!(
        "sqlite3 /srv/store/db 'PRAGMA page_size = 32768; \
         CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB); \
         INSERT INTO t SELECT value, randomblob(32000) FROM generate_series(1, {RECORDS})' && \
         sync"
    ))?;
    Ok(None)
}

/// Waits until a line of shell succeeds.
fn answers(guest: &Guest, who: &str, line: &str) -> Result<()> {
    wait::until(&format!("{who} answers"), || {
        let tried = guest.exec(["sh", "-c", line])?;
        Ok(tried.exit.success().then_some(()))
    })
}
