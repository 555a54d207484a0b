package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	urfave "github.com/urfave/cli/v2"

	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/spec"
)

// initOptions are the values of a first sale file. The user is prompted for zero values.
type initOptions struct {
	sale spec.Sale
	out  string
	c    *urfave.Context
}

const defaultSaleFile = "sale.yaml"

func (p *program) initCommand() *urfave.Command {
	return &urfave.Command{
		Name: "init", Category: groupSale, Usage: "write a first sale file",
		Description: "On a terminal it asks for --name and --stock if they are missing; elsewhere both are required. " +
			"Without --redis and --zookeeper the sale is stored in files beside the sale file, which needs no server.",
		Flags: []urfave.Flag{
			valueFlag("name", "`NAME` of the sale: lower-case letters, digits and hyphens"),
			valueFlag("stock", "sell `N` units in all"),
			valueFlag("lock-count", "split the stock into `N` shards, which sell concurrently (default: 1)"),
			valueFlag("per-user-limit", "sell at most `N` units to a user (default: 1)"),
			&urfave.StringSliceFlag{Name: "redis", KeepSpace: true, Usage: "store locks on the Redis node `HOST:PORT`; repeat it for three or five nodes"},
			&urfave.StringSliceFlag{Name: "zookeeper", KeepSpace: true, Usage: "store the ledger in the HBase registered in ZooKeeper at `HOST:PORT`; may be repeated"},
			valueFlag("table", "store the ledger in HBase table `TABLE` (default: sales)"),
			valueFlag("out", "write the file to `FILE` (default: "+defaultSaleFile+")"),
		},
		Action: action(parseInit, p.init),
	}
}

func parseInit(f *flags) initOptions {
	o := initOptions{c: f.c, out: defaultSaleFile}
	o.sale = spec.Sale{
		Name: f.text("name"), Run: 1, Stock: f.number("stock", 1, math.MaxInt64, 0),
		LockCount: int(f.number("lock-count", 1, math.MaxInt32, 1)), PerUserLimit: f.number("per-user-limit", 1, math.MaxInt64, 1),
		LockTTL: spec.DefaultLockTTL,
	}
	if f.c.IsSet("out") {
		o.out = f.text("out")
	}
	redis, zookeeper := f.texts("redis"), f.texts("zookeeper")
	switch {
	case len(redis) == 0 != (len(zookeeper) == 0):
		f.refuse("--redis and --zookeeper require each other: Redis has the locks, and HBase the ledger")
	case len(redis) == 0 && f.c.IsSet("table"):
		f.refuse("--table is for HBase: name it with --zookeeper")
	case len(redis) == 0:
		o.sale.KeepInFiles()
	default:
		o.sale.KeepOnServers(redis, zookeeper, cmp.Or(f.text("table"), "sales"))
	}
	return o
}

// init writes a sale file.
func (p *program) init(ctx context.Context, o initOptions) error {
	if err := p.promptInit(ctx, &o); err != nil {
		return err
	}
	text, err := o.sale.YAML()
	if err != nil {
		return misused(o.c, "%v", err)
	}
	if _, err := (files.Saving{Mode: 0o644}).Save(o.out, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return withFlag(err, "--out")
	}
	file := ""
	if o.out != defaultSaleFile {
		file = " -f " + quoted(o.out)
	}
	fmt.Fprintf(p.out, "Wrote %s.\nRun 'salectl plan%s' to see what it creates, and 'salectl apply%s' to create it.\n", o.out, file, file)
	return nil
}

// promptInit prompts for the name and the stock unless flags have them.
func (p *program) promptInit(ctx context.Context, o *initOptions) error {
	if !terminal.IsTerminal(p.in) || !terminal.IsTerminal(p.err) {
		f := &flags{c: o.c}
		if o.sale.Name == "" {
			f.refuse("--name is missing; without a terminal, init needs it as a flag")
		}
		if o.sale.Stock == 0 {
			f.refuse("--stock is missing; without a terminal, init needs it as a flag")
		}
		return f.errs.ErrorOrNil()
	}
	if o.sale.Name == "" {
		name, err := p.promptLine(ctx, "Name of the sale, such as movie-tickets: ")
		if err != nil {
			return err
		}
		o.sale.Name = name
	}
	if o.sale.Stock == 0 {
		text, err := p.promptLine(ctx, "Number of units to sell: ")
		if err != nil {
			return err
		}
		if o.sale.Stock, err = strconv.ParseInt(text, 10, 64); err != nil || o.sale.Stock < 1 {
			return misused(o.c, "the number of units must be a whole number above zero, not %q", text)
		}
	}
	return nil
}
