#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the cases in Meson's JUnit report: prints "passed failed skipped".

A program that died before it could report its cases counts as one failure.
"""
import sys
import xml.etree.ElementTree as ElementTree

passed = failed = skipped = 0
for suite in ElementTree.parse(sys.argv[1]).getroot().iter("testsuite"):
    cases = list(suite.iter("testcase"))
    bad = 0
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            bad += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    if bad == 0 and int(suite.get("errors", "0")) + int(suite.get("failures", "0")) > 0:
        bad = 1
    failed += bad
print(passed, failed, skipped)
