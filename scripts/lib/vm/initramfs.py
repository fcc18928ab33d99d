"""The guest's file system: an archive in cpio's format newc, which the kernel unpacks into memory."""

import pathlib
import stat

HERE = pathlib.Path(__file__).resolve().parent


class Archive:
    def __init__(self, path):
        self.file = open(path, "wb")
        self.inode = 0
        self.folders = set()

    def _entry(self, name, mode, content=b""):
        self.inode += 1
        name = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        self.file.write(head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4))

    def folder(self, name):
        name = name.strip("/")
        if not name or name in self.folders:
            return
        self.folder(str(pathlib.PurePath(name).parent).strip("."))
        self.folders.add(name)
        self._entry(name, stat.S_IFDIR | 0o755)

    def add(self, name, content, mode=0o755):
        name = name.strip("/")
        self.folder(str(pathlib.PurePath(name).parent).strip("."))
        self._entry(name, stat.S_IFREG | mode, content)

    def link(self, name, target):
        """A symbolic link."""
        self.folder(str(pathlib.PurePath(name).parent).strip("."))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self._entry("TRAILER!!!", 0)
        self.file.close()


def place(program):
    """Where a program is in the guest. `guest` is next to the tests, since it looks for fxtrec in the same places."""
    program = pathlib.PurePath(program)
    return str(program.parent / "deps/guest") if program.name == "guest" else str(program)


def write(path, programs, busybox, checks):
    """Writes the archive for these programs; `checks` has the lines for the guest to run."""
    archive = Archive(path)
    for folder in ["proc", "sys", "dev", "tmp", "etc", "run", "root"]:
        archive.folder(folder)
    archive.add("bin/busybox", busybox.read_bytes())
    archive.add("init", (HERE / "init").read_bytes())
    for name, script in [("gcc", "compiler"), ("rustc", "compiler"), ("nice", "nice")]:
        archive.add(f"bin/{name}", (HERE / script).read_bytes())
    archive.add("checks", checks.encode(), 0o644)
    archive.add("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", 0o644)
    archive.add("etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
    for source, copy in programs.files.items():
        archive.add(place(source), copy.read_bytes())
    for name, copy in programs.sources.items():
        archive.add(f"programs/{name}", copy.read_bytes())
    for library in programs.libraries:
        archive.add(library, pathlib.Path(library).read_bytes())
    # For manual experiments.
    archive.link("bin/fxtrec", place(programs.bins["fxtrec-tested"]))
    for tool in programs.tools:
        archive.add(f"bin/{pathlib.PurePath(tool).name}", pathlib.Path(tool).read_bytes())
    archive.close()
