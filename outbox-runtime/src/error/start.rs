//! Why the runtime did not start: all problems at once.

use std::fmt;

/// Everything that kept the runtime from starting.
#[derive(Debug)]
pub struct StartError {
    problems: Vec<StartProblem>,
}

/// One reason: which setting or item, what is wrong with it, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartProblem {
    /// The setting (`DATABASE_URL`), or the item with its `file:line`.
    pub subject: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub cure: String,
}

impl StartProblem {
    pub(crate) fn new(subject: impl Into<String>, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { subject: subject.into(), problem: problem.into(), cure: cure.into() }
    }
}

impl fmt::Display for StartProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.problem)?;
        if self.cure.is_empty() { Ok(()) } else { write!(f, "\n      {}", self.cure.replace('\n', "\n      ")) }
    }
}

impl StartError {
    pub(crate) fn new(problems: Vec<StartProblem>) -> Self {
        Self { problems }
    }

    /// The reasons, in the order in which they were found.
    pub fn problems(&self) -> &[StartProblem] {
        &self.problems
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        write!(f, "the runtime cannot start: {count} problem{}", if count == 1 { "" } else { "s" })?;
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "\n  {}. {problem}", i + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {}
