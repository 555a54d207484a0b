package cli

import (
	"context"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/cli/terminal"
	"salectl/spec"
)

func (p *program) validateCommand() *urfave.Command {
	return &urfave.Command{
		Name: "validate", Category: groupSale, Usage: "check sale files",
		Description: "Reports all problems of the files at once, each with its place and a remedy. It reads " +
			"nothing but the files.",
		Flags:  salesFlags(jsonFlag()),
		Action: action(parseSource, p.validate),
	}
}

func (p *program) validate(ctx context.Context, from source) error {
	sales, err := p.load(ctx, from)
	if err != nil {
		return err
	}
	show := pick(from.json, p.validText, p.validJSON)
	for _, sale := range sales { // load has reported invalid ones
		show(sale)
	}
	return nil
}

func (p *program) validText(s spec.Sale) {
	fmt.Fprintf(p.out, "%s is valid: %s over %s, at most %s a user (%s)\n",
		s.Name, count(s.Stock, "unit"), count(s.LockCount, "shard"), grouped(s.PerUserLimit), s.File)
	terminal.WriteWarnings(p.out, p.colours(p.out), warningsOf(s), true)
}

// warningsOf returns warnings about valid but probably unintended values.
func warningsOf(s spec.Sale) []string {
	if s.ClosesAt.IsZero() || time.Now().Before(s.ClosesAt) {
		return nil
	}
	return []string{fmt.Sprintf("closesAt %s has passed: no claim would be accepted", s.ClosesAt.UTC().Format(time.RFC3339))}
}

func (p *program) validJSON(s spec.Sale) {
	p.emit(struct {
		Sale  string `json:"sale"`
		File  string `json:"file"`
		Valid bool   `json:"valid"`

		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`

		Warnings []string `json:"warnings,omitempty"`
	}{s.Name, s.File, true, s.Labels, s.Annotations, warningsOf(s)})
}

func (p *program) schemaCommand() *urfave.Command {
	return &urfave.Command{
		Name: "schema", Category: groupProgram, Usage: "print the JSON Schema of sale files",
		Description: "Editors with a YAML language server check and complete sale files with it:\n" +
			"  salectl schema > sale.schema.json\n" +
			"and, as the first line of a sale file:\n" +
			"  # yaml-language-server: $schema=sale.schema.json",
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 0); err != nil {
				return err
			}
			text, err := spec.Schema()
			if err != nil {
				return err
			}
			_, err = p.out.Write(text) // the same for people and programs
			return err
		},
	}
}
