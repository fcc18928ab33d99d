//! How to get names of functions that a runtime compiled.

use fxt_reader::ProviderId;
use rustc_hash::FxHashMap;

use super::recorded::{Frame, Recorded, Stack};

/// A runtime that compiles functions while a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    Java,
    Node,
    DotNet,
    LuaJit,
}

impl Runtime {
    /// The runtime that a file belongs to.
    fn of_file(path: &str) -> Option<Runtime> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        Some(match name {
            "libjvm.so" => Runtime::Java,
            "node" | "nodejs" => Runtime::Node,
            "libcoreclr.so" => Runtime::DotNet,
            _ if name.starts_with("libnode.so") => Runtime::Node,
            _ if name.starts_with("libluajit") || name.starts_with("luajit") => Runtime::LuaJit,
            _ => return None,
        })
    }

    /// How to get names for its functions in the next recording.
    pub fn advice(self) -> &'static str {
        match self {
            Runtime::Java => {
                "for the names of Java methods, run 'jcmd PID Compiler.perfmap' while fxtrec records (JDK 17 and later), and start java \
                 with -XX:+PreserveFramePointer"
            }
            Runtime::Node => {
                "for the names of JavaScript functions, start node with --perf-basic-prof"
            }
            Runtime::DotNet => {
                "for the names of .NET methods, start the program with DOTNET_PerfMapEnabled=1"
            }
            Runtime::LuaJit => {
                "for the names of compiled Lua, use a LuaJIT that was built with -DLUAJIT_USE_PERFTOOLS"
            }
        }
    }
}

/// Whether compiled functions of a process have names, and whether some have none.
#[derive(Clone, Copy, Debug, Default)]
struct Compiled {
    named: bool,
    unnamed: bool,
}

impl Recorded {
    /// The runtimes that compiled functions of these stacks, but wrote no names where fxtrec looks for them; each is listed once.
    pub fn nameless_runtimes<'a>(
        &'a self,
        stacks: impl IntoIterator<Item = &'a Stack>,
    ) -> Vec<Runtime> {
        let mut processes: FxHashMap<(Option<ProviderId>, u64), (&Stack, Compiled)> =
            FxHashMap::default();
        for stack in stacks {
            let key = (stack.provider, stack.process().0);
            let (_, compiled) = processes.entry(key).or_insert((stack, Compiled::default()));
            for frame in self.frames(stack).filter(is_compiled) {
                compiled.named |= frame.function.is_some();
                compiled.unnamed |= frame.function.is_none();
            }
        }
        let nameless = processes.into_values().filter(|(_, it)| it.unnamed && !it.named);
        let mut runtimes: Vec<Runtime> = nameless
            .filter_map(|(stack, _)| self.files_of(stack).filter_map(Runtime::of_file).min())
            .collect();
        runtimes.sort_unstable();
        runtimes.dedup();
        runtimes
    }
}

/// Whether a frame is in code that belongs to no file.
fn is_compiled(frame: &Frame<'_>) -> bool {
    !frame.in_kernel && frame.module.is_none()
}

#[cfg(test)]
mod tests {
    use fxt_reader::Reader;

    use super::super::example;
    use super::*;

    #[test]
    fn a_runtime_is_recognized_by_its_file() {
        for (path, runtime) in [
            ("/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", Some(Runtime::Java)),
            ("/usr/bin/node", Some(Runtime::Node)),
            ("/usr/lib/x86_64-linux-gnu/libnode.so.108", Some(Runtime::Node)),
            (
                "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so",
                Some(Runtime::DotNet),
            ),
            ("/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2", Some(Runtime::LuaJit)),
            ("/usr/bin/luajit", Some(Runtime::LuaJit)),
            ("/usr/bin/nodeenv", None),
            ("/srv/node/app", None),
        ] {
            assert_eq!(Runtime::of_file(path), runtime, "{path}");
        }
    }

    #[test]
    fn advice_is_for_runtimes_none_of_whose_functions_have_names() {
        let runtimes = |library: &str, named: &[u64]| {
            let bytes = example::trace_of(true, library, named);
            let recorded = Recorded::read(&mut Reader::from_slice(&bytes)).expect("sound");
            recorded.nameless_runtimes(&recorded.all)
        };
        // 0x9000 belongs to no file.
        assert_eq!(runtimes("/opt/libjvm.so", &[]), [Runtime::Java]);
        assert_eq!(runtimes("/opt/libjvm.so", &[0x9000]), []);
        assert_eq!(runtimes("/lib/x.so", &[]), []);
    }
}
