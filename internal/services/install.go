package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// Install sees to it that all servers can be started: it installs the programs
// that are missing with apt-get, where that exists and needs no password, and
// fetches the jars of HBase. It reports its steps to progress. Its error names
// everything that is still missing, each wrapped around ErrMissing.
func Install(ctx context.Context, progress io.Writer) error {
	if err := supported(); err != nil {
		return err
	}
	apt := newAptGet(ctx, progress)
	errs := []error{apt.provide(ctx, redisServer), apt.provide(ctx, java)}
	if !haveJars() {
		err := apt.provide(ctx, maven)
		if err == nil {
			err = fetchJars(ctx, progress)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// InstallClients sees to it that there are Chromium, Python, npx, wrk, Prometheus, Alertmanager, PostgreSQL, the shell
// of SQLite, check-jsonschema and what the scripts of pipelines call, which only tests need, as
// Install does for the servers. A PostgreSQL that the package itself starts is not used.
func InstallClients(ctx context.Context, progress io.Writer) error {
	if err := supported(); err != nil {
		return err
	}
	apt := newAptGet(ctx, progress)
	var errs []error
	for _, t := range []tool{chromium, python, npx, wrk, prometheus, promtool, alertmanager, amtool, postgres, jdk, sqlite3, git, curl, jq, unzip} {
		errs = append(errs, apt.provide(ctx, t))
	}
	errs = append(errs, fetchSchemas(ctx, apt, progress))
	return errors.Join(errs...)
}

// aptGet installs packages.
type aptGet struct {
	command  []string // empty where it may not be used
	progress io.Writer
	updated  bool // the lists of packages are fresh
}

func newAptGet(ctx context.Context, progress io.Writer) *aptGet {
	a := &aptGet{progress: progress}
	program, err := exec.LookPath("apt-get")
	if err != nil {
		return a
	}
	// The program is run through env, because sudo takes no variables along.
	command := []string{"env", "DEBIAN_FRONTEND=noninteractive", program}
	switch {
	case os.Geteuid() == 0:
		a.command = command
	case exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil:
		a.command = append([]string{"sudo", "-n"}, command...)
	}
	return a
}

// provide installs a tool unless it is there.
func (a *aptGet) provide(ctx context.Context, t tool) error {
	_, missing := t.path()
	if missing == nil || len(a.command) == 0 {
		return missing
	}
	err := a.install(ctx, t.debian)
	if err == nil {
		_, err = t.path()
		return err
	}
	if a.updated || ctx.Err() != nil {
		return fmt.Errorf("%w\n%w", missing, err)
	}
	// A fresh machine has no lists of packages, an old one has stale lists.
	fmt.Fprintln(a.progress, "apt-get update ...")
	if err := a.run(ctx, "update"); err != nil {
		return fmt.Errorf("%w\n%w", missing, err)
	}
	a.updated = true
	return a.provide(ctx, t)
}

// install installs the first of the packages that can be had.
func (a *aptGet) install(ctx context.Context, packages []string) error {
	var errs []error
	for _, name := range packages {
		fmt.Fprintf(a.progress, "apt-get install %s ...\n", name)
		err := a.run(ctx, "install", "-y", "--no-install-recommends", name)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// run runs apt-get, and waits while another one is at work.
func (a *aptGet) run(ctx context.Context, args ...string) error {
	command := slices.Concat(a.command, []string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args)
	output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w:\n%s", args[0], err, lastLines(string(output)))
	}
	return nil
}
