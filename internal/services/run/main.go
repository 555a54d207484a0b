// Command run starts the servers that a sale needs on this machine: three
// redis-servers and an HBase, on loopback, until it is stopped by a command.
//
//	go run ./internal/services/run up
//	go run ./internal/services/run down
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"salectl/internal/services"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newApp(os.Stdout).RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newApp(out io.Writer) *cli.App {
	dir := &cli.StringFlag{Name: "dir", Usage: "keep data, logs and pid files in `FOLDER`; without, in the folder local of " + services.CacheDir()}
	command := func(name, arg, usage string, do func(c *cli.Context, l *services.Local) error, flags ...cli.Flag) *cli.Command {
		want, more := len(strings.Fields(arg)), strings.HasSuffix(arg, "...]")
		return &cli.Command{Name: name, ArgsUsage: arg, Usage: usage, Flags: append(flags, dir), Action: func(c *cli.Context) error {
			if c.NArg() != want && !more {
				return fmt.Errorf("usage: %s [--dir FOLDER] %s", name, arg)
			}
			l, err := services.NewLocal(c.String("dir"))
			if err != nil {
				return err
			}
			return do(c, l)
		}}
	}
	purge := &cli.BoolFlag{Name: "purge", Usage: "delete their data and logs too"}
	return &cli.App{
		Name:           "run",
		Usage:          "runs three redis-servers and an HBase on this machine",
		Writer:         out,
		HideVersion:    true,
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("there is no command %q; 'go run ./internal/services/run help' lists them", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			command("up", "[NAME...]", "start what does not run, all or the named servers; install what is missing", up),
			command("down", "", "stop all", down, purge),
			command("status", "", "list what runs", status),
			command("install", "", "only install what is missing, with the browser, the Prometheus, the Alertmanager and the PostgreSQL that tests need", install),
			command("kill", "NAME", "end a server with SIGKILL", each("killed", (*services.Local).Kill)),
			command("pause", "NAME", "freeze a server with SIGSTOP", each("paused", (*services.Local).Pause)),
			command("continue", "NAME", "let a paused server run again", each("runs again", (*services.Local).Continue)),
			command("start", "NAME", "start a server that was killed", start),
		},
	}
}

func install(c *cli.Context, _ *services.Local) error {
	err := errors.Join(services.Install(c.Context, c.App.Writer), services.InstallClients(c.Context, c.App.Writer))
	if err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, "redis-server, Java, HBase, Chromium, Python, wrk, Prometheus, Alertmanager and PostgreSQL are here.")
	return nil
}

func up(c *cli.Context, l *services.Local) error {
	if err := services.Install(c.Context, c.App.Writer); err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, "starting; an HBase takes about ten seconds ...")
	started, err := l.Up(c.Context, c.Args().Slice()...)
	if err != nil {
		return err
	}
	servers, err := l.Status(c.Context)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	for _, s := range servers {
		state := "ran already"
		switch {
		case slices.Contains(started, s.Name):
			state = "started"
		case s.PID == 0:
			state = "does not run"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.Address, state)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var dir string // as an argument of the next command
	if c.IsSet("dir") {
		dir = fmt.Sprintf(" --dir %q", c.String("dir"))
	}
	fmt.Fprintf(c.App.Writer, `
In a sale's file:
  redis:
    nodes: [%s]
  hbase:
    zookeeper: [%q]
    table: sales

Data and logs: %s
To stop:       go run ./internal/services/run down%[4]s        (with --purge it also deletes the data)
To see faults: go run ./internal/services/run kill%[4]s redis-1, then start%[4]s redis-1; pause%[4]s hbase, then continue%[4]s hbase
`, nodes(servers), servers[len(servers)-1].Address, l.Dir(), dir)
	return nil
}

// nodes lists the addresses of the lock nodes as YAML has them.
func nodes(servers []services.Status) string {
	var quoted []string
	for _, s := range servers[:len(servers)-1] {
		quoted = append(quoted, fmt.Sprintf("%q", s.Address))
	}
	return strings.Join(quoted, ", ")
}

func down(c *cli.Context, l *services.Local) error {
	if err := l.Down(); err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, "all are down")
	if !c.Bool("purge") {
		return nil
	}
	if err := l.Purge(); err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, "their data is deleted")
	return nil
}

func status(c *cli.Context, l *services.Local) error {
	servers, err := l.Status(c.Context)
	table := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	for _, s := range servers {
		state := "does not run"
		switch {
		case s.Answers:
			state = fmt.Sprintf("runs, pid %d", s.PID)
		case s.PID != 0:
			state = fmt.Sprintf("does not answer (paused, or starting), pid %d", s.PID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.Address, state)
	}
	return errors.Join(err, table.Flush())
}

func start(c *cli.Context, l *services.Local) error {
	return each("started", func(l *services.Local, name string) error { return l.Start(c.Context, name) })(c, l)
}

// each is a command that does one thing to one server.
func each(done string, do func(*services.Local, string) error) func(*cli.Context, *services.Local) error {
	return func(c *cli.Context, l *services.Local) error {
		name := c.Args().First()
		if err := do(l, name); err != nil {
			return err
		}
		fmt.Fprintln(c.App.Writer, name, done)
		return nil
	}
}
