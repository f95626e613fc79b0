//! Where scripts are evaluated: by this very program, started again as a child that can do nothing else.

use std::env;
use std::sync::Arc;

use runners::script::{ScriptHost, Scripts};

use crate::args::SCRIPT_CHILD;
use crate::failure::Failure;

/// Children of this program that evaluate scripts. None is started before there is a script.
pub(crate) fn scripts() -> Result<Arc<Scripts>, Failure> {
    let program = env::current_exe()?;
    Ok(Arc::new(Scripts::new(ScriptHost::new(program, &[SCRIPT_CHILD]))))
}
