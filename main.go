// Command salectl runs a flash sale from a YAML file.
package main

import (
	"os"

	"salectl/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}
