package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"
)

type versionOptions struct{ json bool }

func (p *program) versionCommand() *urfave.Command {
	return &urfave.Command{
		Name: "version", Category: groupProgram, Usage: "print the version",
		Flags: []urfave.Flag{onFlag("json", "answer in JSON")},
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			o := versionOptions{json: f.on("json")}
			if err := f.done(0); err != nil {
				return err
			}
			return p.version(o)
		},
	}
}

func (p *program) version(o versionOptions) error {
	info := builtFrom()
	var view versionView = (*versionHuman)(p)
	if o.json {
		view = (*versionJSON)(p)
	}
	view.Version(info)
	return nil
}

// build is what this program was built from.
type build struct {
	FormatVersion int    `json:"formatVersion"`
	Version       string `json:"version"` // a tag, or "devel"
	Commit        string `json:"commit,omitempty"`
	Modified      bool   `json:"modified,omitempty"` // since the commit
	Go            string `json:"go"`
	Platform      string `json:"platform"`
}

// builtFrom asks the binary, in which the go command wrote it down.
func builtFrom() build {
	b := build{
		FormatVersion: formatVersion, Version: "devel",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
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

// versionView is all that version says.
type versionView interface{ Version(build) }

var (
	_ versionView = (*versionHuman)(nil)
	_ versionView = (*versionJSON)(nil)
)

type versionHuman program

func (v *versionHuman) Version(b build) {
	fmt.Fprintf(v.out, "salectl %s", b.Version)
	if len(b.Commit) >= 12 {
		fmt.Fprintf(v.out, " (commit %s", b.Commit[:12])
		if b.Modified {
			fmt.Fprint(v.out, ", modified")
		}
		fmt.Fprint(v.out, ")")
	}
	fmt.Fprintf(v.out, "\n%s %s\n", b.Go, b.Platform)
}

type versionJSON program

func (v *versionJSON) Version(b build) { (*program)(v).emit(b) }
