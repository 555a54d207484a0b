package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"

	"salectl/server"
)

func (p *program) versionCommand() *urfave.Command {
	return &urfave.Command{
		Name: "version", Category: groupProgram, Usage: "print the version",
		Flags: []urfave.Flag{onFlag("json", "print JSON")},
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 0); err != nil {
				return err
			}
			p.version(c.Bool("json"))
			return nil
		},
	}
}

// builtFrom reads the build information that the go command stored in the binary.
func builtFrom() server.Build {
	b := server.Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (p *program) version(asJSON bool) {
	b := builtFrom()
	if asJSON {
		p.emit(b)
		return
	}
	fmt.Fprintf(p.out, "salectl %s", b.Version)
	if len(b.Commit) >= 12 {
		fmt.Fprintf(p.out, " (commit %s", b.Commit[:12])
		if b.Modified {
			fmt.Fprint(p.out, ", modified")
		}
		fmt.Fprint(p.out, ")")
	}
	fmt.Fprintf(p.out, "\n%s %s\n", b.Go, b.Platform)
}
