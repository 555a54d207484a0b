package cli

import (
	"context"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/spec"
)

func (p *program) validateCommand() *urfave.Command {
	return &urfave.Command{
		Name: "validate", Category: groupSale, Usage: "check sale files",
		Description: "Says all that is wrong with the files at once, each with its place and a remedy.\n" +
			"It looks at nothing but the files.",
		Flags: []urfave.Flag{fileFlag(), jsonFlag()},
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			from := parseSource(f)
			if err := f.done(0); err != nil {
				return err
			}
			return p.validate(c.Context, from)
		},
	}
}

func (p *program) validate(ctx context.Context, from source) error {
	sales, err := p.load(ctx, from)
	if err != nil {
		return err
	}
	var view validateView = (*validateHuman)(p)
	if from.json {
		view = (*validateJSON)(p)
	}
	for _, sale := range sales {
		view.Valid(sale)
	}
	return nil
}

// validateView is all that validate says. What is wrong is told by load.
type validateView interface {
	Valid(spec.Sale)
}

var (
	_ validateView = (*validateHuman)(nil)
	_ validateView = (*validateJSON)(nil)
)

type validateHuman program

func (v *validateHuman) Valid(s spec.Sale) {
	p := (*program)(v)
	fmt.Fprintf(v.out, "%s is valid: %s over %s, at most %s a user (%s)\n",
		s.Name, count(s.Stock, "unit"), count(s.LockCount, "shard"), grouped(s.PerUserLimit), s.File)
	writeWarnings(v.out, p.colours(v.out), warningsOf(s))
}

// warningsOf tells what is valid and probably not meant.
func warningsOf(s spec.Sale) []string {
	if s.ClosesAt.IsZero() || time.Now().Before(s.ClosesAt) {
		return nil
	}
	return []string{fmt.Sprintf("closesAt %s has passed: no claim would be accepted", s.ClosesAt.UTC().Format(time.RFC3339))}
}

type validateJSON program

func (v *validateJSON) Valid(s spec.Sale) {
	(*program)(v).emit(struct {
		FormatVersion int    `json:"formatVersion"`
		Sale          string `json:"sale"`
		File          string `json:"file"`
		Valid         bool   `json:"valid"`

		Warnings []string `json:"warnings,omitempty"`
	}{formatVersion, s.Name, s.File, true, warningsOf(s)})
}
