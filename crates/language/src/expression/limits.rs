//! The limits of expressions, each with its reason.

/// Longest expression, in bytes. It is parsed again for each evaluation.
pub const EXPRESSION_BYTES: usize = 4 << 10;
/// Most tokens in one expression. Parsing and evaluation recurse into its nesting, which cannot be
/// deeper than this.
pub const TOKENS: usize = 200;
/// Deepest nesting of brackets. The parser calls a dozen functions for each level.
pub const NESTING: usize = 32;
/// Most expressions in one text.
pub const EXPRESSIONS: usize = 1_000;
/// Most operations of one evaluation, over all expressions of a value.
pub const OPERATIONS: usize = 100_000;
/// Most bytes that one evaluation returns: the maximum size of a step's output.
pub const OUTPUT_BYTES: usize = 256 << 10;
/// Most memory that operations and filters of one evaluation allocate in total. An output of the
/// maximum size fits, however small its parts are.
pub const WORK_BYTES: usize = 16 << 20;
