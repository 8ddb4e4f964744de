"""Runs the checks that scripts/check.sh names and counts them.

Each build, formatter run and fuzzer counts as one check; each GoogleTest case
and lit test as one. Output of what passes is not shown.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIT = "/usr/lib/llvm-19/build/utils/lit/lit.py"
FUZZ_SECONDS = 60
NUMERICS_SEEDS = 40
# Cases that the asan build runs where not all: bundles' kernels have no
# sanitizers, so that the walks of one storage say as much as all of them.
ASAN_CASES = {"numerics_test": "Storage/*/fp8"}
# Of a fuzzer whose seeds are vectors of a test, in runtime/test.
SEEDS = {"decode_tables": "data/sidecar"}


class Checks:
    """Counts of what passed, and names of what failed."""

    def __init__(self):
        self.passed = 0
        self.failed = []

    def run(self, name, command, env=None):
        """One command, one check. Shows its output only if it fails."""
        print(f"-- {name}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode == 0:
            self.passed += 1
            return True
        self.failed.append(name)
        print(done.stdout[-20000:], flush=True)
        print(f"-- {name}: FAILED (exit status {done.returncode})", flush=True)
        return False

    def gtest(self, binary, label, env, cases="*"):
        """Every case of a GoogleTest binary is a check."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            done = subprocess.run(
                [binary, f"--gtest_output=json:{report.name}",
                 f"--gtest_filter={cases}"], cwd=ROOT, env=env, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                suites = json.load(open(report.name))["testsuites"]
            except ValueError:
                suites = []
        bad = 0
        for suite in suites:
            for case in suite["testsuite"]:
                if case.get("failures"):
                    bad += 1
                    self.failed.append(
                        f"{label} {suite['name']}.{case['name']}")
                elif case["status"] == "RUN" and case["result"] == "COMPLETED":
                    self.passed += 1
        if done.returncode and not bad:  # a crash, or a leak after the cases
            self.failed.append(f"{label} {binary.name}")
        if done.returncode:
            print(done.stdout[-20000:], flush=True)

    def lit(self, build, label, env):
        """Every lit test is a check."""
        report = build / "lit.json"
        done = subprocess.run(
            [sys.executable, LIT, "-q", f"--output={report}",
             str(build / "test")],
            cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        try:
            tests = json.load(open(report))["tests"]
        except (OSError, ValueError):
            tests = []
        for test in tests:
            if test["code"] in ("PASS", "XFAIL"):
                self.passed += 1
            elif test["code"] != "UNSUPPORTED":
                self.failed.append(f"{label} {test['name']}")
        if done.returncode:
            print(done.stdout[-20000:], flush=True)
        if not tests:
            self.failed.append(f"{label} lit found no tests")


def sources():
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.h"], cwd=ROOT,
                            text=True, capture_output=True, check=True)
    return listed.stdout.split()


def suite_environment():
    """Tests share no cache with the user and see no settings of theirs."""
    env = dict(os.environ)
    env["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="ds4-check-")
    env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    return env


def fetch_hiprtc(env):
    """AMD's kernel compiler, kept between runs in the user's own cache."""
    print("-- hipRTC", flush=True)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME")
                         or pathlib.Path.home() / ".cache")
    root = cache / "ds4c" / "hiprtc"
    done = subprocess.run([ROOT / "scripts/hiprtc-root.sh", root], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        env["DS4_HIPRTC_ROOT"] = str(root)
    else:
        print(done.stdout[-2000:] + "-- no hipRTC: what needs it is left out",
              flush=True)


def build_and_test(checks, preset, env, extra=()):
    if not checks.run(f"configure {preset}", ["cmake", "--preset", preset,
                                              *extra]):
        return
    if not checks.run(f"build {preset}",
                      ["cmake", "--build", "--preset", preset]):
        return
    build = ROOT / "build" / preset
    for binary in sorted((build / "bin").glob("*_test")):
        print(f"-- {preset} {binary.name}", flush=True)
        cases = ASAN_CASES.get(binary.name, "*") if preset == "asan" else "*"
        checks.gtest(binary, preset, env, cases)
    print(f"-- {preset} lit", flush=True)
    checks.lit(build, preset, env)


def fuzz(checks, env):
    if not (checks.run("configure fuzz", ["cmake", "--preset", "fuzz"]) and
            checks.run("build fuzz", ["cmake", "--build", "--preset", "fuzz"])):
        return
    for binary in sorted((ROOT / "build/fuzz/bin").glob("*_fuzz")):
        name = binary.name.removesuffix("_fuzz")
        seeds = ROOT / "runtime/test" / SEEDS.get(name, f"fuzz/{name}")
        with tempfile.TemporaryDirectory() as corpus:
            folders = [corpus] + ([str(seeds)] if seeds.is_dir() else [])
            checks.run(f"{binary.name} for {FUZZ_SECONDS} s", [
                binary, f"-max_total_time={FUZZ_SECONDS}", "-rss_limit_mb=2048",
                *folders], env)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    checks = Checks()
    env = suite_environment()
    checks.run("clang-format",
               ["clang-format-19", "--dry-run", "-Werror", *sources()])
    fetch_hiprtc(env)
    slow = {} if mode == "--fast" else {"DS4_SLOW_TESTS": "1"}
    build_and_test(checks, "dev", {**env, **slow})
    if mode != "--fast":
        if checks.run("configure runtime-only",
                      ["cmake", "--preset", "runtime-only",
                       "-DDS4_BUILD_TESTS=OFF", "-DLLVM_DIR=/nonexistent",
                       "-DMLIR_DIR=/nonexistent"]):
            checks.run("build runtime-only",
                       ["cmake", "--build", "--preset", "runtime-only"])
        build_and_test(checks, "asan", env)
    if mode == "--long":
        tidy = [s for s in sources() if s.endswith(".cpp")
                and not s.startswith(("bench/", "runtime/test/fuzz/"))]
        checks.run("clang-tidy", ["clang-tidy-19", "-p", "build/dev",
                                  "--quiet", "--warnings-as-errors=*", *tidy])
        fuzz(checks, env)
        print("-- numerics_test with more seeds", flush=True)
        checks.gtest(ROOT / "build/dev/bin/numerics_test", "long",
                     {**env, "DS4_NUMERICS_SEEDS": str(NUMERICS_SEEDS)})
    for name in checks.failed:
        print(f"FAILED: {name}")
    print(f"{checks.passed} passed, {len(checks.failed)} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
