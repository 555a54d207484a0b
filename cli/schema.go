package cli

import (
	urfave "github.com/urfave/cli/v2"

	"salectl/spec"
)

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
