//! A pooler between a node and its database.

use calendar::Zones;
use store::{Failure, Postgres, PostgresOptions};
use testbed::{Cluster, PoolMode, Pooler};

#[tokio::test]
async fn a_pooler_is_refused_unless_its_clients_have_sessions_of_their_own() {
    let cluster = Cluster::builder().fsync(false).start().unwrap();
    for mode in [PoolMode::Transaction, PoolMode::Statement] {
        let pooler = Pooler::start(&cluster, mode).unwrap();
        // Repeated, because the pooler then has several sessions to choose from.
        for _ in 0..3 {
            let opened = Postgres::open(Zones::bundled(), PostgresOptions::new(pooler.url())).await;
            let said = opened.err().unwrap_or_else(|| panic!("{mode:?}: it was opened"));
            let Failure::Unusable { what, remedy } = said else { panic!("{mode:?}: {said}") };
            assert!(what.contains("pooler"), "{mode:?}: {what}");
            assert!(remedy.contains("pool_mode = session"), "{mode:?}: {remedy}");
        }
    }
    let none = "SELECT count(*) FROM pg_namespace WHERE nspname = 'punctual'";
    assert_eq!(cluster.ask(none).unwrap(), "0", "nothing was written");
    let pooler = Pooler::start(&cluster, PoolMode::Session).unwrap();
    Postgres::open(Zones::bundled(), PostgresOptions::new(pooler.url())).await.unwrap();
}
