//! The limits of expressions, each with its reason.

/// Longest expression, in bytes: it is read again whenever it is worked out.
pub const EXPRESSION_BYTES: usize = 4 << 10;
/// Most words and signs in one expression. Reading and working out follow its nesting by recursion,
/// and no nesting is deeper than this.
pub const TOKENS: usize = 200;
/// Deepest nesting of brackets: the parser goes through a dozen functions for each.
pub const NESTING: usize = 32;
/// Most expressions in one text.
pub const EXPRESSIONS: usize = 1_000;
/// Most operations of one evaluation, all expressions of a value together.
pub const OPERATIONS: usize = 100_000;
/// Most bytes that one evaluation gives: what a step's output may have.
pub const OUTPUT_BYTES: usize = 256 << 10;
/// Most memory that operations and filters take on the way, all of one evaluation together: an
/// output of the largest size fits, however small its parts are.
pub const WORK_BYTES: usize = 16 << 20;
