//! Serializes paths of any bytes, not only text, with serde.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(from).map(PathBuf::from)
}

/// Several.
pub(crate) mod all {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| path.as_os_str()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
    }
}

/// Serializes optional paths.
pub(crate) mod maybe {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<OsString>::deserialize(from)?.map(PathBuf::from))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_path_of_any_bytes_comes_back_as_it_was() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Paths {
            #[serde(with = "super")]
            one: PathBuf,
            #[serde(with = "super::all")]
            all: Vec<PathBuf>,
            #[serde(with = "super::maybe")]
            maybe: Option<PathBuf>,
            #[serde(with = "super::maybe")]
            none: Option<PathBuf>,
        }
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff\n\"".to_vec()));
        let all = vec!["/b".into(), odd.clone()];
        let paths = Paths { one: odd.clone(), all, maybe: Some(odd), none: None };
        let text = serde_json::to_vec(&paths).expect("it can be written");
        assert_eq!(serde_json::from_slice::<Paths>(&text).expect("it can be read"), paths);
    }
}
