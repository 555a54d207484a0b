package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/report"
	"salectl/report/threshold"
	"salectl/spec"
)

// reporting are the options of the report of rehearse and audit.
type reporting struct {
	file       string // file of the page, "" for none
	thresholds []threshold.Threshold
}

// requested reports whether a report or a threshold was requested: they need the ledger.
func (o reporting) requested() bool { return o.file != "" || len(o.thresholds) > 0 }

func reportFlag() urfave.Flag {
	return valueFlag("report", "write a report in HTML to `FILE`, of one sale only")
}

func thresholdFlag(example string) urfave.Flag {
	return &urfave.StringSliceFlag{
		Name: "threshold", KeepSpace: true,
		Usage: fmt.Sprintf("exit with %d unless `CONDITION` is true, such as '%s'; may be repeated", exitThreshold, example),
	}
}

func parseReporting(f *flags, metrics threshold.Metrics) reporting {
	o := reporting{file: f.text("report")}
	for _, text := range f.texts("threshold") {
		t, err := metrics.Parse(text)
		if err != nil {
			f.refuse("--%s", err)
		}
		o.thresholds = append(o.thresholds, t)
	}
	return o
}

// forEachReported is forEach for a command that may write a report. It reports obstacles to
// the report before anything is done.
func (p *program) forEachReported(ctx context.Context, from source, o reporting, command string, do func(context.Context, spec.Sale) error) error {
	return p.forEachIf(ctx, from, func(sales []spec.Sale) error {
		err := isForOne(command, "report", o.file != "")(sales)
		if err != nil || o.file == "" {
			return err
		}
		if err := mayBeReport(o.file); err != nil {
			return fmt.Errorf("the report cannot be written: %w", err)
		}
		return nil
	}, do)
}

// reportMark is in the head of every report.
const reportMark = `<meta name="generator" content="salectl `

// mayBeReport refuses a path that cannot be written, or that has a file which is no report: a
// mistake in the name.
func mayBeReport(path string) error {
	f, err := files.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return files.CheckWritable(path)
	case err != nil:
		return err
	}
	defer f.Close()
	head := make([]byte, 2048)
	n, err := io.ReadFull(f, head)
	switch {
	case errors.Is(err, io.EOF): // empty
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case !bytes.Contains(head[:n], []byte(reportMark)):
		return withFlag(&files.ExistsError{Path: path, What: "is no report"}, "--report")
	}
	return nil
}

// withFlag adds the flag that names another file to the remedy of an error about an existing file.
func withFlag(err error, flag string) error {
	if errors.Is(err, files.ErrExists) {
		return fmt.Errorf("%w with %s", err, flag)
	}
	return err
}

// reported writes the page, if requested, and returns the error of the command. It is called
// after the answer is printed; its errors were reported.
func (p *program) reported(o reporting, page *report.Page, good bool, ifBad error, kept bool) error {
	var failed *multierror.Error
	if o.file != "" {
		page.At, page.Version = time.Now(), builtFrom().Version
		if _, err := (files.Saving{Mode: 0o644, Replace: true}).Save(o.file, page.Write); err != nil {
			err = fmt.Errorf("writing the report: %w", err)
			p.fault(err)
			failed = multierror.Append(failed, err)
		} else {
			p.logf("The report is in %s.", o.file)
		}
	}
	if !good {
		failed = multierror.Append(failed, ifBad)
	}
	if !kept {
		failed = multierror.Append(failed, errThreshold)
	}
	if failed == nil {
		return nil
	}
	return shown{failed}
}

// thresholdText describes the result of a threshold, with a failure in red.
func thresholdText(c terminal.Palette, t threshold.Result) string {
	if t.OK {
		return t.String()
	}
	return strings.Replace(t.String(), "FAILED", c.Red("FAILED"), 1)
}
