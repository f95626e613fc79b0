//! Encrypted connections to a real server, and which certificates they trust.

use calendar::Zones;
use engine::Moment;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use store::{Failure, Postgres, PostgresOptions, Store as _};
use testbed::Cluster;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A server that accepts only encrypted connections, with a certificate for `localhost`.
struct Server {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let (ours, foreign) = (authority(), authority());
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        let certificate = params.signed_by(&key, &ours).expect("a certificate");
        let cluster = Cluster::builder()
            .fsync(false)
            .setting("ssl", "on")
            .file("server.key", &key.serialize_pem())
            .file("server.crt", &certificate.pem())
            .file("pg_hba.conf", "local all all trust\nhostssl all all all trust\n")
            .start()
            .expect("a cluster");
        let folder = tempfile::tempdir().expect("a folder");
        let files = [("ours", ours.pem()), ("foreign", foreign.pem()), ("own", certificate.pem())];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        Server { cluster, folder }
    }

    async fn open(&self, host: &str, parameters: &str) -> Result<Postgres, Failure> {
        let port = self.cluster.port();
        let parameters = parameters.replace("FOLDER", &self.folder.path().display().to_string());
        let url = format!("postgres://punctual@{host}:{port}/punctual?{parameters}");
        Postgres::open(Zones::bundled(), PostgresOptions::new(url)).await
    }

    async fn refuses(&self, host: &str, parameters: &str, words: &str) {
        match self.open(host, parameters).await {
            Err(failure) => assert!(failure.to_string().contains(words), "{parameters}: {failure}"),
            Ok(_) => panic!("{parameters} is taken"),
        }
    }

    /// How many connections of nodes are open, and how many of them are encrypted.
    fn connections(&self) -> (u32, u32) {
        let sql = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_activity
                   JOIN pg_stat_ssl USING (pid) WHERE application_name = 'punctual'";
        let answer = self.cluster.ask(sql).expect("it answers");
        let (all, encrypted) = answer.split_once('|').expect("two numbers");
        (all.parse().expect("a number"), encrypted.parse().expect("a number"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_to_trust() {
    let server = Server::start();
    for parameters in [
        "",
        "sslmode=prefer",
        "sslmode=require",
        "sslmode=require&sslrootcert=FOLDER/ours",
        "sslmode=verify-ca&sslrootcert=FOLDER/ours",
        "sslmode=verify-full&sslrootcert=FOLDER/ours",
        "sslmode=verify-full&sslrootcert=FOLDER/own",
    ] {
        let opened = server.open("localhost", parameters).await;
        drop(opened.unwrap_or_else(|failure| panic!("{parameters}: {failure}")));
    }
    let verify_ca = "sslmode=verify-ca&sslrootcert=FOLDER/ours";
    drop(server.open("127.0.0.1", verify_ca).await.expect("a name does not matter"));
    let unknown = "of an authority that `sslrootcert` does not name";
    for mode in ["require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert=FOLDER/foreign");
        server.refuses("localhost", &parameters, unknown).await;
    }
    let verify_full = "sslmode=verify-full&sslrootcert=FOLDER/ours";
    server.refuses("127.0.0.1", verify_full, "the certificate is not for 127.0.0.1").await;
    server.refuses("localhost", "sslmode=disable", "no encryption").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_encrypted() {
    let server = Server::start();
    let store = server.open("localhost", "sslmode=require").await.expect("it opens");
    store.on_call(Box::new(|_| {}));
    let now = Timestamp::from_second(1_800_000_000).expect("in range");
    store.join("one", Moment::new(now, now)).await.expect("it joins");
    // Queries, renewals and the listener have at least one connection each.
    let looks = (0..600).take_while(|_| server.connections().0 < 3);
    let looks = looks.map(|_| std::thread::sleep(std::time::Duration::from_millis(50)));
    assert!(looks.count() < 600, "{:?}", server.connections());
    let (all, encrypted) = server.connections();
    assert_eq!(all, encrypted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_encrypt() {
    let cluster = Cluster::builder().fsync(false).start().expect("a cluster");
    let open = |parameters: &str| {
        let url = format!("{}{parameters}", cluster.url());
        Postgres::open(Zones::bundled(), PostgresOptions::new(url))
    };
    drop(open("").await.expect("it opens"));
    match open("?sslmode=require").await {
        Err(failure) => assert!(failure.to_string().contains("does not support TLS"), "{failure}"),
        Ok(_) => panic!("it is taken"),
    }
    let socket = cluster.folder().display().to_string().replace('/', "%2F");
    let url = format!("postgres://punctual@{socket}:{}/punctual?sslmode=require", cluster.port());
    let opened = Postgres::open(Zones::bundled(), PostgresOptions::new(url)).await;
    drop(opened.expect("nothing to encrypt"));
}
