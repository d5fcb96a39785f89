"""Generates C and its Fast DDS type support from the interfaces beside this file, by ROS 2's own generators.

Called by the Makefile: generate.py PREFIX OUT, with the prefix of a ROS 2 installation. The Python that runs this has
that installation's packages.
"""

import json
import pathlib
import sys

from rosidl_generator_c import generate_c
from rosidl_generator_type_description import generate_type_hash
from rosidl_typesupport_fastrtps_c import generate_typesupport_fastrtps_c

PACKAGE = "tripmeter_ros2"
# Packages that the interfaces and a service's events refer to.
DEPENDENCIES = ["service_msgs", "builtin_interfaces"]


def main() -> None:
    prefix, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).absolute()
    here = pathlib.Path(__file__).absolute().parent / "interfaces"
    names = sorted(str(path.relative_to(here)) for path in here.rglob("*.idl"))
    share = prefix / "share"
    common = {
        "package_name": PACKAGE,
        "output_dir": str(out),
        "idl_tuples": [f"{here}:{name}" for name in names],
        "include_paths": [f"{package}:{share / package}" for package in DEPENDENCIES],
        "ros_interface_dependencies": [],
        "target_dependencies": [],
        "type_description_tuples": [f"{name}:{(out / name).with_suffix('.json')}" for name in names],
        "ros_interface_files": [str(here / name) for name in names],
    }
    generators = {
        "rosidl_generator_type_description": generate_type_hash,
        "rosidl_generator_c": generate_c,
        "rosidl_typesupport_fastrtps_c": generate_typesupport_fastrtps_c,
    }
    out.mkdir(parents=True, exist_ok=True)
    for generator, generate in generators.items():
        templates = share / generator / "resource"
        arguments = out / f"{generator}.json"
        arguments.write_text(json.dumps({**common, "template_dir": str(templates)}))
        generate(str(arguments))
        control_name = f"{generator}__visibility_control.h"
        control = templates / f"{control_name}.in"
        if control.exists():
            text = control.read_text().replace("@PROJECT_NAME@", PACKAGE)
            (out / "msg").mkdir(exist_ok=True)
            (out / "msg" / control_name).write_text(text.replace("@PROJECT_NAME_UPPER@", PACKAGE.upper()))


main()
