//! Messages from other nodes, through LISTEN and NOTIFY. They may be lost: nothing depends on them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::NodeId;
use futures_util::stream::{StreamExt as _, poll_fn};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client};

use crate::failure::Failure;
use crate::postgres::connections::connect::{Target, silent, unavailable};
use crate::postgres::transaction::shared::Shared;
use crate::request::Call;

/// How long to wait before a lost connection is opened again.
const AGAIN: Duration = Duration::from_secs(2);

/// Listens on a connection of its own, once a callback is registered.
pub(crate) struct Listener {
    target: Arc<Target>,
    shared: Arc<Shared>,
    node: Arc<AtomicI64>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    pub(crate) fn new(target: Arc<Target>, shared: Arc<Shared>, node: Arc<AtomicI64>) -> Listener {
        Listener { target, shared, node, task: Mutex::default() }
    }

    pub(crate) fn start(&self, call: Box<dyn Fn(Call) + Send + Sync>) {
        let (target, shared, node) = (self.target.clone(), self.shared.clone(), self.node.clone());
        let task = tokio::spawn(async move {
            loop {
                let began = Instant::now();
                match listen(&target, &shared, &node, &*call).await {
                    Err(failure) if began.elapsed() > AGAIN => tracing::info!(
                        %failure,
                        "the connection that hears other nodes is lost: this node looks for what they say until it is back"
                    ),
                    Err(failure) => tracing::debug!(%failure, "other nodes are not heard for now"),
                    Ok(()) => {}
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        let before = self.task.lock().unwrap_or_else(PoisonError::into_inner).replace(task);
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

/// Starts to listen, and then queries the database again and again: a connection that is gone looks
/// the same as one without messages. Returns when the database does not answer.
async fn ask_again_and_again(client: &Client, target: &Target) -> Failure {
    let mut question = format!("{}; LISTEN punctual", target.setup());
    loop {
        match tokio::time::timeout(target.patience(), client.batch_execute(&question)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return unavailable(error),
            Err(_) => return silent(target.patience()),
        }
        tokio::time::sleep(target.patience() * 2).await;
        "SELECT 1".clone_into(&mut question);
    }
}

async fn listen(
    target: &Target,
    shared: &Shared,
    node: &AtomicI64,
    call: &(dyn Fn(Call) + Send + Sync),
) -> Result<(), Failure> {
    let (client, mut connection) = target.open().await?;
    let mut messages = poll_fn(move |context| connection.poll_message(context));
    let asking = ask_again_and_again(&client, target);
    tokio::pin!(asking);
    loop {
        tokio::select! {
            failure = &mut asking => return Err(failure),
            message = messages.next() => match message {
                None => return Ok(()),
                Some(Err(error)) => return Err(unavailable(error)),
                Some(Ok(AsyncMessage::Notification(heard))) => {
                    let node = NodeId(node.load(Ordering::Relaxed));
                    if let Some(heard) = shared.heard(heard.payload(), node) {
                        call(heard);
                    }
                }
                Some(Ok(_)) => {}
            },
        }
    }
}
