#!/usr/bin/env python3
"""Reads a watch of every kind that can be watched, and checks each line against the contract.

Schemathesis knows one answer to one request, not streams, so they are checked here.
"""

import json
import sys
import urllib.request

import jsonschema_rs  # comes with schemathesis

BASE = sys.argv[1]
WATCH = "application/json;stream=watch"


def main() -> None:
    with urllib.request.urlopen(f"{BASE}/openapi.json") as response:
        document = json.load(response)
    checked = 0
    for path, item in document["paths"].items():
        if "get" not in item:
            continue
        content = item["get"]["responses"]["200"].get("content", {})
        if WATCH not in content:
            continue
        schema = {**content[WATCH]["schema"], "components": document["components"]}
        validator = jsonschema_rs.Draft202012Validator(schema)
        url = BASE + path.replace("{namespace}", "default") + "?watch=true&timeoutSeconds=1"
        with urllib.request.urlopen(url) as response:
            assert response.headers["Content-Type"] == WATCH, path
            steps = [json.loads(line) for line in response]
        for step in steps:
            validator.validate(step)
        kinds = [step["type"] for step in steps]
        assert kinds.count("BOOKMARK") == 1, f"{path}: {kinds}"
        if path.endswith(("pods", "mounts", "volumes", "events")):
            assert "ADDED" in kinds, f"{path} tells of nothing"
        checked += 1
        print(f"{path}: {len(steps)} steps as the contract says")
    assert checked == 11, f"{checked} kinds can be watched"


if __name__ == "__main__":
    main()
