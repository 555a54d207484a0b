package services

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fakeProgram puts a shell script into a folder of programs.
func fakeProgram(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMissingProgramsAreNamed(t *testing.T) {
	oldJava := t.TempDir()
	fakeProgram(t, filepath.Join(oldJava, "bin"), "java", `echo 'openjdk version "1.8.0_392"' >&2`)
	noJava := tool{java.name, java.debian, java.brew, func() (string, error) { return "", errors.New("there is none") }}
	noPostgres := tool{postgres.name, postgres.debian, postgres.brew, func() (string, error) { return findPostgres(nil) }}
	for name, c := range map[string]struct {
		find func() error
		want string
	}{
		"redis":   {func() error { _, err := StartRedis(t.Context(), RedisOptions{}); return err }, "apt-get install redis-server"},
		"java":    {func() error { _, err := noJava.path(); return err }, "apt-get install openjdk-17-jre-headless"},
		"mvn":     {func() error { _, err := maven.path(); return err }, "brew install maven"},
		"browser": {func() error { _, err := Chromium(); return err }, "apt-get install chromium"},
		"python":  {func() error { _, err := Python(); return err }, "apt-get install python3"},
		"wrk":     {func() error { _, err := Wrk(); return err }, "apt-get install wrk"},
		"metrics": {func() error { _, err := Prometheus(); return err }, "apt-get install prometheus"},
		"rules":   {func() error { _, err := Promtool(); return err }, "brew install prometheus"},
		"alerts":  {func() error { _, err := Alertmanager(); return err }, "apt-get install prometheus-alertmanager"},
		"routes":  {func() error { _, err := Amtool(); return err }, "brew install alertmanager"},
		"tables":  {func() error { _, err := noPostgres.path(); return err }, "apt-get install postgresql'"},
		"schemas": {func() error { _, err := CheckJSONSchema(); return err }, "services/run install"},
		"scripts": {PipelinePrograms, "apt-get install jq"},
		"jars":    {func() error { return fetchJars(t.Context(), io.Discard) }, "mvn is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", "")
			t.Setenv("SALECTL_CACHE", t.TempDir())
			err := c.find()
			if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
	t.Run("jars of HBase", func(t *testing.T) {
		if _, err := java.path(); err != nil {
			Require(t, err)
		}
		t.Setenv("SALECTL_CACHE", t.TempDir())
		for what, start := range map[string]func() error{
			"HBase":   func() error { _, err := StartHBase(t.Context(), HBaseOptions{}); return err },
			"cluster": func() error { _, err := StartCluster(t.Context(), ClusterOptions{}); return err },
		} {
			if err := start(); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "services/run install") {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
}

func TestJavaVersions(t *testing.T) {
	for output, want := range map[string]int{
		`openjdk version "17.0.15" 2025-04-15`: 17,
		`openjdk version "21" 2023-09-19`:      21,
		`java version "1.8.0_392"`:             1,
	} {
		path := fakeProgram(t, t.TempDir(), "java", "echo '"+output+"' >&2")
		if got, err := javaVersion(path); got != want || err != nil {
			t.Errorf("%s: got %d, %v", output, got, err)
		}
	}
}

func TestFindJavaPassesOverOthers(t *testing.T) {
	real, err := java.path()
	Require(t, err)
	for _, version := range []string{"1.8.0_392", "11.0.2", "25"} {
		home := t.TempDir()
		fakeProgram(t, filepath.Join(home, "bin"), "java", `echo 'openjdk version "`+version+`"' >&2`)
		t.Setenv("JAVA_HOME", home)
		if got, err := findJava(); err != nil || strings.HasPrefix(got, home) {
			t.Errorf("with Java %s in JAVA_HOME: got %q, %v, want %q", version, got, err, real)
		}
	}
}

// aptGetScript knows no package before a command to update its lists, and
// only the second of two then.
const aptGetScript = `
echo "$@" >> "$0.calls"
case "$*" in
*update*) touch "$0.updated" ;;
*second*) [ -f "$0.updated" ] && touch "$0.installed" ;;
*) echo "E: Unable to locate package" >&2; exit 100 ;;
esac`

func TestProvideUpdatesOnceAndTakesWhatThereIs(t *testing.T) {
	program := fakeProgram(t, t.TempDir(), "apt-get", aptGetScript)
	find := func() (string, error) { return program, exists(program + ".installed") }
	apt := &aptGet{command: []string{program}, progress: io.Discard}
	if err := apt.provide(t.Context(), tool{"it", []string{"first", "second"}, "it", find}); err != nil {
		t.Error(err)
	}
	none := tool{"another", []string{"first"}, "it", func() (string, error) { return "", os.ErrNotExist }}
	if err := apt.provide(t.Context(), none); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "Unable to locate") {
		t.Errorf("a package that does not exist: %v", err)
	}
	calls, err := os.ReadFile(program + ".calls")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for line := range strings.Lines(string(calls)) {
		fields := strings.Fields(line)
		verbs = append(verbs, fields[len(fields)-1])
	}
	if got := strings.Join(verbs, " "); got != "first second update first second first" {
		t.Errorf("apt-get was called with: %s", got)
	}
	if err := (&aptGet{progress: io.Discard}).provide(t.Context(), none); !errors.Is(err, ErrMissing) {
		t.Errorf("without apt-get: %v", err)
	}
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

func TestJarsAreFetchedOnce(t *testing.T) {
	programs := t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Setenv("SALECTL_CACHE", filepath.Join(t.TempDir(), "cache"))

	fakeProgram(t, programs, "mvn", "echo no network >&2; exit 1")
	if err := fetchJars(t.Context(), io.Discard); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "no network") {
		t.Errorf("mvn fails: %v", err)
	}
	if haveJars() {
		t.Error("jars that could not be fetched are there")
	}

	// The argument that names the folder is the only one with an "=" and a "/".
	mvn := fakeProgram(t, programs, "mvn", `echo call >> "$0.calls"
for a; do case $a in -DoutputDirectory=*) mkdir -p "${a#*=}" && echo jar > "${a#*=}/a.jar" ;; esac; done`)
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() { errs[i] = fetchJars(context.Background(), io.Discard) })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if err := exists(filepath.Join(jarFolder(), "lib", "a.jar")); err != nil || !haveJars() {
		t.Errorf("no jars: %v", err)
	}
	if calls, err := os.ReadFile(mvn + ".calls"); err != nil || string(calls) != "call\n" {
		t.Errorf("mvn was called %q, %v", calls, err)
	}
	if left, err := filepath.Glob(filepath.Join(CacheDir(), "hbase-partial-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
