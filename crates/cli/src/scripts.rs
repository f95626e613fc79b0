//! Evaluates scripts with this program, started again as a confined child process.

use std::sync::Arc;

use language::definition::Flaw;
use runners::script::{ScriptHost, Scripts};
use server::{Form, Source, SourceError};

use crate::args::SCRIPT_CHILD;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;

/// A pool of children of this program that evaluate scripts. The first child is started with the
/// first script.
pub(crate) fn scripts() -> Result<Arc<Scripts>, Failure> {
    Ok(Arc::new(Scripts::new(ScriptHost::of_this_program(&[SCRIPT_CHILD])?)))
}

/// The source of a definition. A script is evaluated by a child process that ends when this
/// function returns.
pub(crate) fn source(document: &Document) -> Result<Result<Source<'_>, Vec<Flaw>>, Failure> {
    let evaluated = async {
        let scripts = match document.form() {
            // Without a sandbox, the scripts inside a text are not checked; everything else is.
            Form::Text => scripts().ok(),
            Form::Script => Some(scripts()?),
        };
        source_by(document, scripts.as_deref()).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(evaluated)
}

/// Like [`source`], with this pool of children.
pub(crate) async fn source_by<'d>(
    document: &'d Document,
    scripts: Option<&Scripts>,
) -> Result<Result<Source<'d>, Vec<Flaw>>, Failure> {
    let source = Source::new(document.form(), &document.text, scripts, clock::instant()).await;
    match source {
        Ok(source) => Ok(Ok(source)),
        Err(SourceError::Flaws(flaws)) => Ok(Err(flaws)),
        Err(SourceError::Unavailable(why)) => {
            Err(Failure::Environment(format!("{}: {why}", document.name)))
        }
    }
}
