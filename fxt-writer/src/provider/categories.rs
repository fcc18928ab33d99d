//! The set of recorded categories: names, and prefixes followed by a star.

/// The enabled categories of a session.
///
/// ```
/// use fxt_writer::provider::Categories;
///
/// let enabled = Categories::new(["net", "app*"]);
/// assert!(enabled.contains("net") && enabled.contains("app") && enabled.contains("app:db"));
/// assert!(!enabled.contains("network"));
/// assert!(Categories::new(["*"]).contains("anything"));
/// assert!(Categories::new(Vec::<String>::new()).contains("anything"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    patterns: Vec<String>,
}

impl Categories {
    /// The categories that `patterns` enable: each a name, or a prefix followed
    /// by `*`. An empty list enables every category, as in a trace controller's
    /// `TraceConfig`.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect() }
    }

    /// Whether this category is enabled.
    #[must_use]
    pub fn contains(&self, category: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => category.starts_with(prefix),
            None => category == pattern,
        };
        self.patterns.is_empty() || self.patterns.iter().any(matches)
    }

    /// The patterns, in the order in which they were given.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}
