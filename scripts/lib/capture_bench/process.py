"""A recorder's processes: starts them, measures their use of resources so far, and ends them."""

import ctypes
import os
import pathlib
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Process:
    """A program that runs next to the workload."""

    def __init__(self, command, output=subprocess.DEVNULL, errors=subprocess.DEVNULL):
        self.command = command
        self.used = None
        self.status = None

        def die_with_us():
            # A recorder that outlived a killed benchmark would keep recording.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

        # In a separate session: Ctrl-C is sent to the benchmark, which then ends the recorder.
        self.child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True, preexec_fn=die_with_us,
        )
        self.pid = self.child.pid

    def _processes(self):
        """Its id, and those of its descendants."""
        found = [self.pid]
        for pid in found:
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    found += [int(child) for child in task.read_text().split()]
                except OSError:
                    # It has just ended.
                    pass
        return found

    def _tasks(self):
        return (task for pid in self._processes() for task in pathlib.Path(f"/proc/{pid}/task").iterdir())

    def cpu(self):
        """Nanoseconds of CPU time that its live threads have used."""
        return sum(int((task / "schedstat").read_text().split()[0]) for task in self._tasks())

    def wakes(self):
        """How often its threads went to sleep or were preempted; each time is a wakeup or a switch."""
        lines = (line for task in self._tasks() for line in (task / "status").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

    def resident(self):
        """The peak resident memory in bytes, summed over its processes."""
        texts = (pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self._processes())
        lines = (line for text in texts for line in text.splitlines())
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

    def is_running(self):
        """Whether it is still running."""
        return self.status is None and self._reap(os.WNOHANG) is None

    def _reap(self, options):
        pid, status, usage = os.wait4(self.pid, options)
        if pid == self.pid:
            self.status = os.waitstatus_to_exitcode(status)
            # Popen must not wait for it again.
            self.child.returncode = self.status
            self.used = int((usage.ru_utime + usage.ru_stime) * 1e9)
        return self.status

    def interrupt(self):
        """Ends it as Ctrl-C does."""
        if self.is_running():
            os.kill(self.pid, signal.SIGINT)

    def wait(self, seconds=30.0):
        """Waits for its end; kills it if that takes too long. Returns the total CPU time used, in nanoseconds."""
        deadline = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                self._reap(0)
                raise RuntimeError(f"{' '.join(self.command)} did not end within {seconds:.0f} s")
            time.sleep(0.005)
        return self.used

    def kill(self):
        """Ends it in any case."""
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)
            try:
                self.wait(5.0)
            except RuntimeError:
                pass
