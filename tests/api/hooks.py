"""What schemathesis is told of this API."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    """It reads an answer to its end, so streams are left to watch.py."""
    return str((case.query or {}).get("watch")).lower() != "true"


@schemathesis.hook
def map_case(context, case):
    """Half of the names are those of a pod that is there, so that not every answer is that it is not."""
    names = case.path_parameters
    if names and len(str(names.get("namespace"))) % 2 == 1:
        there = {"namespace": "default", "name": "web"}
        case.path_parameters = {name: there[name] for name in names}
    return case
