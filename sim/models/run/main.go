// Command run explores the models of the protocols and prints what it finds: for each
// case how many states there are, and for one that leaves a rule out the shortest way
// to what goes wrong. It fails if a case does not find what it is to find.
//
//	go run ./sim/models/run                          all models, a line a case
//	go run ./sim/models/run -trace handover          one model, with the traces
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"salectl/sim/models"
	"salectl/sim/models/explore"
	"salectl/sim/tool"
)

func main() { tool.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("models", flag.ContinueOnError)
	traces := flags.Bool("trace", false, "print the traces, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(400) // what is explored stays
	wanted := flags.Args()
	cases, states, began, failed := 0, 0, time.Now(), 0
	for _, m := range models.All() {
		if len(wanted) > 0 && !contains(wanted, m.Name) {
			continue
		}
		fmt.Fprintf(out, "%s: %s\n", m.Name, m.About)
		for _, c := range m.Cases {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			r := c.Run()
			cases, states = cases+1, states+r.States
			if err := c.Check(r); err != nil {
				failed++
				fmt.Fprintf(out, "  %s: %v\n%s\n", c.Name, err, indented(r))
				continue
			}
			fmt.Fprintf(out, "  %-66s %9d states %6.1f s  %s\n", title(c), r.States, time.Since(start).Seconds(), verdict(r))
			if *traces && r.Wrong != "" {
				fmt.Fprintln(out, indented(r))
			}
		}
	}
	if cases == 0 {
		return fmt.Errorf("there is no model %s; the models are %s", strings.Join(wanted, ", "), strings.Join(names(), ", "))
	}
	fmt.Fprintf(out, "%d cases, %d states, %.0f s\n", cases, states, time.Since(began).Seconds())
	if failed > 0 {
		return errors.New("not every case found what it was to find")
	}
	return nil
}

func title(c models.Case) string {
	if c.Off == "" {
		return c.Name
	}
	return "without " + c.Off + ": " + c.Name
}

func verdict(r explore.Result) string {
	if r.Wrong == "" {
		return "holds"
	}
	return fmt.Sprintf("found in %d steps: %s", len(r.Trace)+len(r.Again), r.Wrong)
}

func indented(r explore.Result) string {
	return "      " + strings.ReplaceAll(r.String(), "\n", "\n    ")
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

func names() (all []string) {
	for _, m := range models.All() {
		all = append(all, m.Name)
	}
	return all
}
