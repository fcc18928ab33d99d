#!/usr/bin/env python3
"""A client of fxtrec's trace controller, with the package varlink of PyPI, that calls every method once.

    session_client.py SOCKET OUTPUT SNAPSHOT

Prints `started` once it records, then the first alert, and at the end all states that it saw.
"""
import array
import socket
import sys
import threading

import varlink


class Passing(varlink.SimpleClientInterfaceHandler):
    """Sends descriptors along with the next message."""

    descriptors = []

    def _send_message(self, message):
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.descriptors))
        self._connection.sendmsg([message + b"\0"], [rights] if self.descriptors else [])
        self.descriptors = []


client = varlink.Client.new_with_address("unix:" + sys.argv[1])
client.handler = Passing
assert "fxtrec.Controller" in client.get_interfaces(), client.get_interfaces()

states = []
watching = threading.Event()


def watch():
    with client.open("fxtrec.Controller") as watcher:
        for change in watcher.WatchState(_more=True):
            states.append(change["state"])
            watching.set()
            if states.count("ready") == 2:
                return


watcher = threading.Thread(target=watch)
watcher.start()
watching.wait()

with client.open("fxtrec.Controller") as controller, open(sys.argv[2], "wb") as output, open(
    sys.argv[3], "wb"
) as snapshot:
    assert controller.GetStatus()["state"] == "ready"
    known = {known["name"]: known for known in controller.GetKnownCategories()["categories"]}
    assert known["sched"]["permitted"] and "of:alarming" in known, known
    providers = controller.GetProviders()["providers"]
    assert [provider["name"] for provider in providers] == ["alarming"], providers
    try:
        controller.StartTracing()
        raise SystemExit("it started nothing")
    except varlink.VarlinkError as error:
        assert error.error() == "fxtrec.Controller.NotInitialized", error

    controller.descriptors = [output.fileno()]
    config = {"buffering_mode": "circular", "start_timeout_milliseconds": 0}
    controller.InitializeTracing(config=config, output=0)
    started = controller.StartTracing(options={"buffer_disposition": "clear_entire"})
    assert started == {"started": 0, "late": ["alarming"]}, started
    assert controller.GetStatus()["kernel"]["running"]
    print("started", flush=True)
    print("alert", controller.WatchAlert()["alert_name"], flush=True)
    controller.descriptors = [snapshot.fileno()]
    assert controller.Snapshot(output=0)["bytes"] > 0
    stats = controller.StopTracing(options={"write_results": True})["provider_stats"]
    assert {one["name"]: one["records_dropped"] for one in stats}["napper"] == 0, stats
    controller.TerminateTracing()

watcher.join()
print("states", *states, flush=True)
