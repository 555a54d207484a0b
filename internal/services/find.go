package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// CacheDir is the folder for what is fetched once and for the data of the
// command's servers: $SALECTL_CACHE, or .cache/salectl in the home folder.
func CacheDir() string {
	if dir := os.Getenv("SALECTL_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir() // a user without a home has no better place
	}
	return filepath.Join(home, ".cache", "salectl")
}

// tool is a program that the servers need and how to get it.
type tool struct {
	name   string
	debian []string // packages of Debian or Ubuntu that have it; the first is installed first
	brew   string   // Homebrew's formula
	find   func() (path string, err error)
}

var (
	redisServer = onPath("redis-server", "redis-server", "redis")
	maven       = onPath("mvn", "maven", "maven")
	chromium    = tool{"Chromium", []string{"chromium", "chromium-browser"}, "--cask chromium", findChromium}
	python      = tool{"Python 3", []string{"python3"}, "python", func() (string, error) { return exec.LookPath("python3") }}
	npx         = onPath("npx", "npm", "node")
	wrk         = onPath("wrk", "wrk", "wrk")
	// Prometheus and what checks its files come in one package.
	prometheus = onPath("prometheus", "prometheus", "prometheus")
	promtool   = onPath("promtool", "prometheus", "prometheus")
	// So do Alertmanager and what checks its file.
	alertmanager = tool{"Alertmanager", []string{"prometheus-alertmanager"}, "alertmanager",
		func() (string, error) { return firstOnPath("prometheus-alertmanager", "alertmanager") }}
	amtool   = onPath("amtool", "prometheus-alertmanager", "alertmanager")
	postgres = tool{"PostgreSQL", []string{"postgresql"}, "postgresql",
		func() (string, error) { return findPostgres(postgresFolders) }}
	java = tool{fmt.Sprintf("Java %d", oldestJava), []string{"openjdk-17-jre-headless", "openjdk-21-jre-headless"}, "openjdk@17", findJava}
)

// jdk is a java that also compiles, for programs that are run from their source.
var jdk = tool{"a Java compiler", []string{"openjdk-17-jdk-headless", "openjdk-21-jdk-headless"}, "openjdk@17", findJDK}

// sqlite3 is the shell that docs/gitops.md puts a log back with.
var sqlite3 = onPath("sqlite3", "sqlite3", "sqlite")

// onPath is a tool with the name of its program, which is on PATH, from one package and one formula.
func onPath(program, debian, brew string) tool {
	return tool{program, []string{debian}, brew, func() (string, error) { return exec.LookPath(program) }}
}

// What scripts of pipelines call.
var git, curl, jq, unzip = onPath("git", "git", "git"), onPath("curl", "curl", "curl"), onPath("jq", "jq", "jq"), onPath("unzip", "unzip", "unzip")

// PipelinePrograms reports whether the programs are there that scripts of pipelines call: nil, or an
// ErrMissing with the remedy.
func PipelinePrograms() (err error) {
	for _, t := range []tool{git, curl, jq, unzip} {
		_, missing := t.path()
		err = errors.Join(err, missing)
	}
	return err
}

// path returns the tool's path, or an ErrMissing with the remedy.
func (t tool) path() (string, error) {
	path, err := t.find()
	if err == nil {
		return path, nil
	}
	if unsupported := supported(); unsupported != nil {
		return "", unsupported
	}
	return "", fmt.Errorf("%s is %w (%v): run 'go run ./internal/services/run install', or on Debian and Ubuntu 'apt-get install %s', on macOS 'brew install %s'",
		t.name, ErrMissing, err, t.debian[0], t.brew)
}

// Chromium returns the path of a Chromium browser, for tests of what a web page may
// do to a server.
func Chromium() (string, error) { return chromium.path() }

// Python returns the path of Python 3, for tests of clients that are written in it.
func Python() (string, error) { return python.path() }

// TypeScript returns the command that runs a program in TypeScript: the Node.js of npm's registry
// that removes types by itself, since those of distributions may be older.
func TypeScript() ([]string, error) {
	path, err := npx.path()
	if err != nil {
		return nil, err
	}
	command := []string{path, "--yes", "--prefer-offline", "node@22.23.3"}
	if err := exec.Command(path, append(command[1:], "--version")...).Run(); err != nil {
		return nil, fmt.Errorf("node 22 is %w: %s: %w", ErrMissing, strings.Join(command, " "), err)
	}
	return command, nil
}

// Wrk returns the path of wrk, for tests of clients that know nothing of salectl.
func Wrk() (string, error) { return wrk.path() }

// Prometheus returns the path of a Prometheus server, for tests of queries of metrics.
func Prometheus() (string, error) { return prometheus.path() }

// Promtool returns the path of promtool, which checks metrics, rules and queries.
func Promtool() (string, error) { return promtool.path() }

// Alertmanager returns the path of an Alertmanager server, for tests of routes and inhibitions of alerts.
func Alertmanager() (string, error) { return alertmanager.path() }

// Amtool returns the path of amtool, which checks configurations of Alertmanager.
func Amtool() (string, error) { return amtool.path() }

// findChromium returns the first browser of that family.
func findChromium() (string, error) {
	return firstOnPath("chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium")
}

// firstOnPath returns the path of the first program with one of the names.
func firstOnPath(names ...string) (string, error) {
	var why error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		why = cmp.Or(why, err)
	}
	return "", why
}

// postgresFolders are where packages put the server's programs, which PATH does not name.
var postgresFolders = []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"}

// findPostgres returns the postgres of the newest version that is in a folder of these patterns,
// or that of PATH.
func findPostgres(patterns []string) (string, error) {
	newest, path := -1, ""
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(pattern, "postgres"))
		if err != nil {
			return "", err
		}
		for _, each := range found {
			folder := filepath.Base(filepath.Dir(filepath.Dir(each))) // 15, postgresql@16
			version, err := strconv.Atoi(strings.TrimPrefix(folder, "postgresql@"))
			if err == nil && version > newest {
				newest, path = version, each
			}
		}
	}
	if path != "" {
		return path, nil
	}
	return exec.LookPath("postgres")
}

// Installed reports whether all is here that Local starts: nil, or an ErrMissing with the
// remedy.
func Installed() error {
	_, err := redisServer.path()
	_, noHBase := findHBase()
	return errors.Join(err, noHBase)
}

// findHBase returns the Java program if that and the jars are there.
func findHBase() (program string, err error) {
	if program, err = java.path(); err != nil {
		return "", err
	}
	if !haveJars() {
		return "", fmt.Errorf("the jars of HBase are %w in %s: run 'go run ./internal/services/run install', which fetches 117 MB from Maven Central with mvn",
			ErrMissing, jarFolder())
	}
	return program, nil
}

// HBase 2.6 wants Java 17 or older; the launcher's options want 17 or newer.
// What HBase needs of the security manager is gone from 24 on.
const oldestJava, newestJava = 17, 23

// findJava returns the first Java of a fitting version: that of JAVA_HOME, that
// of PATH, or one that is installed beside them. Homebrew and Debian both put a
// second version where PATH does not lead.
func findJava() (string, error) {
	var candidates []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		candidates = append(candidates, path)
	}
	for _, pattern := range []string{"/usr/lib/jvm/*/bin/java", "/opt/homebrew/opt/openjdk@*/bin/java", "/usr/local/opt/openjdk@*/bin/java"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		candidates = append(candidates, found...)
	}
	why := errors.New("there is no java in JAVA_HOME or PATH")
	for _, path := range candidates {
		version, err := javaVersion(path)
		switch {
		case err != nil:
			why = err
		case version < oldestJava || version > newestJava:
			why = fmt.Errorf("%s is version %d, and HBase runs on %d to %d", path, version, oldestJava, newestJava)
		default:
			return path, nil
		}
	}
	return "", why
}

// findJDK returns the Java program if its compiler is beside it.
func findJDK() (string, error) {
	program, err := findJava()
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(program) // Debian's is a link, and javac a link of its own
	if err == nil {
		_, err = os.Stat(filepath.Join(filepath.Dir(real), "javac"))
	}
	return program, err
}

// javaVersion returns the major version of a Java program. Up to 8 it calls
// itself 1.8, and so on; such a one is 1 here, too old either way.
func javaVersion(path string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s -version: %w", path, err)
	}
	match := regexp.MustCompile(`version "(\d+)`).FindSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("%s -version names no version: %q", path, output)
	}
	return strconv.Atoi(string(match[1]))
}
