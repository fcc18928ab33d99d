"""Files that are downloaded once: Debian's kernels, and a chroot with QEMU and a C compiler and linker for arm64.

Everything is below one folder outside of the repository. Nothing of the machine's own apt is used or changed except its keys, and nothing
stays mounted: the mounts of the chroot are in a namespace that ends with its process.
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

MIRROR = os.environ.get("FXTREC_VM_MIRROR", "http://deb.debian.org/debian")
SECURITY = os.environ.get("FXTREC_VM_SECURITY", "http://deb.debian.org/debian-security")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The places in which kernels are searched. A release that has left the mirror is skipped.
SUITES = [
    "bullseye", "bullseye-security", "bookworm", "bookworm-security", "bookworm-backports",
    "trixie", "trixie-security", "trixie-backports", "forky", "sid",
]  # fmt: skip

# QEMU of bookworm corrupts flags after cmpxchg16b when CPUs are emulated by several threads; this release does not.
CHROOT_SUITE = "trixie"

# Seconds before a download is retried.
PAUSE = 10

# Of its package.
BUSYBOX = "usr/bin/busybox"

QEMU = ["qemu-system-x86", "qemu-system-arm", "ipxe-qemu"]
CROSS = ["gcc", "libc6-dev", "gcc-aarch64-linux-gnu", "libc6-dev:arm64"]


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def run(command, tries=1, **options):
    """Runs a command; its output is shown only if it fails. A command that downloads may be retried."""
    while True:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        if done.returncode == 0:
            return done.stdout
        text = f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}"
        tries -= 1
        if not tries:
            sys.exit(f"vm: {text}")
        say(text)
        time.sleep(PAUSE)


def images(folder):
    """Images and their releases: boot/vmlinuz-RELEASE, since 7.3 usr/lib/modules/RELEASE/vmlinuz."""
    named = [(path, path.name.removeprefix("vmlinuz-")) for path in folder.glob("boot/vmlinuz-*")]
    return named + [(path, path.parent.name) for path in folder.glob("usr/lib/modules/*/vmlinuz")]


class Cache:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.chroot = self.folder / CHROOT_SUITE
        self.apt = self.folder / "apt"
        self.is_updated = False
        self.folder.mkdir(parents=True, exist_ok=True)
        # Two concurrent runs would download the same into the same files.
        self.file = open(self.folder / "lock", "w")
        self.lock()

    def lock(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def unlock(self):
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def has(self, arch, series, flavour):
        """Whether a guest can be booted without any download."""
        marks = ["qemu"] if arch == "amd64" else ["qemu", "gcc"]
        is_installed = all((self.chroot / f".fxtrec-{mark}").exists() for mark in marks)
        busybox = self.folder / "busybox" / arch / BUSYBOX
        return is_installed and busybox.exists() and bool(images(self._folder(arch, series, flavour)))

    def _folder(self, arch, series, flavour):
        return self.chroot / "vm/kernels" / arch / "-".join(filter(None, [series, flavour]))

    # The chroot

    def qemu(self):
        self._install("qemu", QEMU)
        (self.chroot / "vm").mkdir(exist_ok=True)

    def cross(self):
        self.qemu()
        self._install("gcc", CROSS)

    def _install(self, name, packages):
        done = self.chroot / f".fxtrec-{name}"
        if done.exists():
            return
        self._bootstrap()
        say(f"installing {', '.join(packages)} into {self.chroot}")
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
        apt = ["chroot", self.chroot, "apt-get", "-qq", "-y", "-o", "Acquire::Retries=3"]
        run([*apt, "update"], tries=3, env=env)
        run([*apt, "install", "--no-install-recommends", *packages], tries=3, env=env)
        run([*apt, "clean"], env=env)
        done.touch()

    def _bootstrap(self):
        done = self.chroot / ".fxtrec-base"
        if done.exists():
            return
        if not shutil.which("debootstrap"):
            sys.exit("vm: debootstrap is missing: apt install debootstrap")
        # The remains of an interrupted run.
        shutil.rmtree(self.chroot, ignore_errors=True)
        say(f"making a chroot of Debian {CHROOT_SUITE} in {self.chroot}")
        # It mounts file systems that must not remain when it is ended. A second try finds the files that were already downloaded.
        run(["unshare", "--mount", "debootstrap", "--variant=minbase", CHROOT_SUITE, self.chroot, MIRROR], tries=2)
        etc = self.chroot / "etc"
        (etc / "apt/sources.list").write_text(f"deb {MIRROR} {CHROOT_SUITE} main\n")
        (etc / "apt/apt.conf.d/90fxtrec").write_text('Acquire::Languages "none";\nAPT::Install-Recommends "false";\n')
        # Packages must not start daemons.
        policy = self.chroot / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        for name in ["resolv.conf", "hosts"]:
            if pathlib.Path("/etc", name).exists():
                shutil.copy(f"/etc/{name}", etc / name)
        run(["chroot", self.chroot, "dpkg", "--add-architecture", "arm64"])
        done.touch()

    def inside(self, command, mounts):
        """The command line that runs a shell command in the chroot, with these folders of the machine."""
        lines = ["set -e"]
        for folder in mounts:
            (self.chroot / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind '{folder}' '{self.chroot}{folder}'")
        lines.append(f"mount -t proc proc '{self.chroot}/proc'")
        lines.append(f"exec chroot '{self.chroot}' /bin/sh -c '{command}'")
        return ["unshare", "--mount", "sh", "-c", "\n".join(lines)]

    # Packages

    def _apt(self, *command):
        config = self.apt / "apt.conf"
        lines = []
        for suite in SUITES:
            mirror = SECURITY if suite.endswith("-security") else MIRROR
            lines.append(f"deb [arch=amd64,arm64 signed-by={KEYRING}] {mirror} {suite} main\n")
        sources = self.apt / "etc/sources.list"
        # They may be from another mirror than before.
        if not config.exists() or sources.read_text() != "".join(lines):
            for folder in ["lists/partial", "cache/archives/partial", "state", "etc/parts"]:
                (self.apt / folder).mkdir(parents=True, exist_ok=True)
            sources.write_text("".join(lines))
            (self.apt / "state/status").touch()
            config.write_text(
                f'Dir::Etc::sourcelist "{self.apt}/etc/sources.list";\n'
                f'Dir::Etc::sourceparts "{self.apt}/etc/parts";\n'
                f'Dir::Etc::preferencesparts "{self.apt}/etc/parts";\n'
                f'Dir::State "{self.apt}/state";\nDir::State::status "{self.apt}/state/status";\n'
                f'Dir::State::lists "{self.apt}/lists";\nDir::Cache "{self.apt}/cache";\n'
                'APT::Architecture "amd64";\nAPT::Architectures {"amd64";"arm64";};\n'
                'APT::Sandbox::User "root";\nAcquire::Languages "none";\nAcquire::Retries "3";\n'
                'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n'
            )
        env = dict(os.environ, APT_CONFIG=str(config), LC_ALL="C")
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _update(self):
        if self.is_updated:
            return
        say("reading the lists of Debian's packages")
        # Fails if one suite no longer exists on the mirror, but reads the others; a missing package shows up when it is needed.
        self._apt("apt-get", "-qq", "update")
        self.is_updated = True

    def _download(self, package, folder):
        folder.mkdir(parents=True, exist_ok=True)
        env = dict(os.environ, APT_CONFIG=str(self.apt / "apt.conf"), LC_ALL="C")
        done = subprocess.run(
            ["apt-get", "-qq", "download", package],
            cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        found = list(folder.glob("*.deb"))
        if done.returncode != 0 or not found:
            say(f"apt-get download {package} failed: {done.stdout.strip()}")
            return None
        return found[0]

    def _extract(self, package, folder, patterns):
        """Unpacks the files of a package below the folder, and removes the package itself. Returns False if the mirror does not have it."""
        scratch = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(scratch, ignore_errors=True)
        deb = self._download(package, scratch)
        if deb is None:
            shutil.rmtree(scratch)
            return False
        data = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
        # A pattern without a match is reported; the caller checks for the required files.
        tar = ["tar", "-x", "-C", scratch, "--wildcards", *patterns]
        subprocess.run(tar, stdin=data.stdout, stderr=subprocess.DEVNULL, check=False)
        data.stdout.close()
        data.wait()
        deb.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
        return True

    def busybox(self, arch):
        folder = self.folder / "busybox" / arch
        binary = folder / BUSYBOX
        if not binary.exists():
            self._update()
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not self._extract(f"busybox-static:{arch}", folder, ["./usr/bin/busybox"]):
                sys.exit("vm: there is no busybox")
        return binary

    def kernel(self, arch, series, flavour, update=False):
        """The image of the newest kernel of a series (`6.12`) and flavour (``, `rt`, `cloud`), and its release; None if no mirror has
        it."""

        folder = self._folder(arch, series, flavour)
        found = images(folder)
        if update or not found:
            self._update()
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Lists may name packages that a mirror no longer has, or does not have yet: for an old release, perhaps all updates.
            for package in self._newest(arch, series, flavour)[:16]:
                say(f"downloading {package} ({arch})")
                files = ["./boot/vmlinuz-*", "./usr/lib/modules/*/vmlinuz"]
                if self._extract(f"{package}:{arch}", folder, files):
                    break
            found = images(folder)
        return found[0] if found else None

    def symbols(self, arch, series, flavour):
        """The folder with `usr/lib/debug` of the kernel that `kernel` returns: its vmlinux and the link to it; None if no mirror has it."""
        _, release = self.kernel(arch, series, flavour)
        folder = self.folder / "symbols" / release
        if not any(folder.glob("usr/lib/debug/boot/vmlinux-*")):
            self._update()
            folder.parent.mkdir(exist_ok=True)
            say(f"downloading linux-image-{release}-dbg ({arch})")
            names = ["boot/*", "lib/modules/*/vmlinux", ".build-id/*"]
            if not self._extract(f"linux-image-{release}-dbg:{arch}", folder, [f"./usr/lib/debug/{name}" for name in names]):
                return None
        return folder

    def _newest(self, arch, series, flavour):
        """The packages that may have its image, the newest first."""
        suffix = "-".join(filter(None, [flavour, arch]))
        names = self._apt("apt-cache", "pkgnames", "linux-").stdout.split()
        shape = re.compile(rf"linux-(image|binary)-({re.escape(series)}\.\d[^-]*(?:-\d+)?)-{re.escape(suffix)}$")
        found = [match for match in map(shape.match, names) if match]

        # Since 6.19 the image is in `linux-binary`, and `linux-image` only depends on it.
        def order(match):
            numbers = [int(number) for number in re.findall(r"\d+", match.group(2))]
            return numbers, match.group(1) == "binary"

        return [match.group(0) for match in sorted(found, key=order, reverse=True)]
