//! Where scripts are evaluated: by this very program, started again as a child that can do nothing else.

use std::sync::Arc;

use language::definition::Flaw;
use runners::script::{ScriptHost, Scripts};
use server::{Form, Source, SourceError};

use crate::args::SCRIPT_CHILD;
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;

/// Children of this program that evaluate scripts. None is started before there is a script.
pub(crate) fn scripts() -> Result<Arc<Scripts>, Failure> {
    Ok(Arc::new(Scripts::new(ScriptHost::of_this_program(&[SCRIPT_CHILD])?)))
}

/// The text of a definition with what it describes; a script is evaluated here, by a child that ends with it.
pub(crate) fn source(document: &Document) -> Result<Result<Source<'_>, Vec<Flaw>>, Failure> {
    let evaluated = async {
        let scripts = match document.form() {
            // Without a sandbox the scripts in it are not looked at; everything else is.
            Form::Text => scripts().ok(),
            Form::Script => Some(scripts()?),
        };
        source_by(document, scripts.as_deref()).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(evaluated)
}

/// The same, evaluated by these.
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
