//! A second server that has everything the first one has acknowledged, and may replace it.

use std::time::Duration;

use crate::Trouble;
use crate::cluster::Cluster;

/// How often the standby's state is checked before the start counts as failed.
const LOOKS: usize = 300;
const BETWEEN: Duration = Duration::from_millis(100);

impl Cluster {
    /// Starts a hot standby with synchronous replication. From the return on, this server
    /// acknowledges a commit only when the standby has it on its disk too, and waits if there is no
    /// standby.
    pub fn standby(&self) -> Result<Cluster, Trouble> {
        let standby = Cluster::prepare()?;
        let data = format!("--pgdata={}", standby.data().display());
        let fixed =
            ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--username=punctual"];
        let own = [data, self.port_argument(), "--host=127.0.0.1".to_owned()];
        standby.run("pg_basebackup", fixed.map(str::to_owned).into_iter().chain(own))?;
        let standby = standby.start_somewhere()?;
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.ask("SELECT pg_reload_conf()")?;
        self.until(
            "a synchronous standby",
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
            "1",
        )?;
        Ok(standby)
    }

    /// Promotes a standby to the primary.
    pub fn promote(&self) -> Result<(), Trouble> {
        self.control(["promote", "--wait"]).map(drop)
    }

    fn until(&self, what: &str, sql: &str, wanted: &str) -> Result<(), Trouble> {
        for _ in 0..LOOKS {
            if self.ask(sql)? == wanted {
                return Ok(());
            }
            std::thread::sleep(BETWEEN);
        }
        Err(Trouble::new(what, "it does not come"))
    }
}
