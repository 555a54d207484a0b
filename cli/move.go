package cli

import (
	"context"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/planner"
	"salectl/spec"
)

type moveOptions struct {
	operating
	sale   string
	shard  int
	anyone bool
}

func (p *program) moveCommand() *urfave.Command {
	return &urfave.Command{
		Name: "move", Category: groupSale, Usage: "have a process own a shard", ArgsUsage: "SALE SHARD ADDRESS",
		Description: "ADDRESS is the admin address of the serve process that is to own the shard, beside its\n" +
			"share. Waits until it does. The shard stays there while the process runs and is not\n" +
			"drained, until it is moved elsewhere or, with --any at any of the processes, wherever\n" +
			"it would be by itself. Exit codes: 0 done, 1 no such sale, 3 the process is on standby,\n" +
			"or somebody else has moved the shard meanwhile, 4 no such shard, 7 not in time.",
		Flags: operatingFlags(onFlag("any", "let the shard be wherever it would be by itself")),
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			o := moveOptions{operating: f.operating("move", 2), sale: c.Args().Get(0), anyone: f.on("any")}
			text := c.Args().Get(1)
			shard, err := strconv.Atoi(text)
			if o.shard = shard; c.Args().Len() > 1 && (err != nil || shard < 0 || shard >= spec.MaxLockCount || text != strconv.Itoa(shard)) {
				f.refuse("SHARD must be a number from 0, not %q", text)
			}
			if err := f.done(3); err != nil {
				return err
			}
			return p.move(c.Context, o)
		},
	}
}

// moveReply is what move prints with --json.
type moveReply struct {
	FormatVersion int `json:"formatVersion"`
	api.ShardOwner
	Done bool `json:"done"`
}

func (p *program) move(ctx context.Context, o moveOptions) error {
	process, err := p.operator(o.operating)
	if err != nil {
		return err
	}
	client, err := process.client(o.sale)
	if err != nil {
		return err
	}
	defer client.Close()
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, timedOut(o.timeout))
	defer cancel()
	var at api.ShardOwner
	ask := func(ask func(context.Context) (api.ShardOwner, error)) error {
		return process.ask(bounded, kept(&at, ask))
	}
	err = ask(func(ctx context.Context) (api.ShardOwner, error) { return client.Move(ctx, o.shard, o.anyone) })
	said := false
	for ; err == nil; err = ask(func(ctx context.Context) (api.ShardOwner, error) { return client.ShardOwner(ctx, o.shard) }) {
		switch {
		case o.anyone && at.Moved != "":
			return &planner.Refusal{Reason: fmt.Sprintf("somebody else has moved shard %d to %s meanwhile", o.shard, at.Moved)}
		case !o.anyone && !at.Pinned:
			return &planner.Refusal{Reason: fmt.Sprintf("somebody else has moved shard %d meanwhile, or the process was drained: it should be at %s", o.shard, placeText(at.Assigned))}
		case at.Here && !o.anyone, o.anyone && at.Owner != "" && at.Owner == at.Assigned:
			if o.json {
				p.emit(moveReply{formatVersion, at, true})
			} else {
				fmt.Fprintf(p.out, "%s: %s owns shard %d.\n", o.sale, at.Owner, o.shard)
			}
			return nil
		case !said:
			p.say("%s", moveWaits(at))
			said = true
		}
		if api.Sleep(bounded, operatingEvery) != nil {
			err = context.Cause(bounded)
			break
		}
	}
	if at.Sale != "" && bounded.Err() != nil {
		if o.json {
			p.emit(moveReply{formatVersion, at, false})
		}
		return fmt.Errorf("%w: %s", context.Cause(bounded), moveWaits(at))
	}
	return err
}

// moveWaits says where a shard is and where it should be.
func moveWaits(at api.ShardOwner) string {
	return fmt.Sprintf("shard %d of %s is at %s and should be at %s", at.Shard, at.Sale, placeText(at.Owner), placeText(at.Assigned))
}

func placeText(address string) string {
	if address == "" {
		return "no process that is known"
	}
	return address
}
