package cli

import (
	"context"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/planner"
)

type drainOptions struct {
	operating
	sales []string // names; empty: all sales of the process
	undo  bool
}

func (p *program) drainCommand() *urfave.Command {
	return &urfave.Command{
		Name: "drain", Category: groupSale, Usage: "move all shards off a server process",
		Description: "The process gives its shards of the sales to other processes, forwards the requests of " +
			"buyers to them, and takes no shard until --undo or a restart. The command waits until the " +
			"process owns no shard. Exit codes: 0 done, 1 no such sale, 3 the process is going down, " +
			"7 not done in time: the process keeps the remaining shards until another one takes them.",
		Flags: append(append([]urfave.Flag{
			adminFlag(),
			saleFlag(),
			onFlag("undo", "let the process take its share of the shards again"),
			tokenFlag(),
		}, tlsFlags()...), boundFlag(defaultOperating), jsonFlag()),
		Action: action(func(f *flags) drainOptions {
			return drainOptions{operating: operating{
				secrets: f.secrets(), admin: f.needServer("admin"), timeout: f.duration("timeout", defaultOperating), json: f.on("json"),
			}, sales: f.names(), undo: f.on("undo")}
		}, p.drain),
	}
}

// drainReply is the output of drain --json.
type drainReply struct {
	api.Share
	Done    bool   `json:"done"`
	Unready string `json:"unready,omitempty"` // why it cannot forward all requests
}

func (p *program) drain(ctx context.Context, o drainOptions) error {
	process, err := p.operator(o.operating)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, timedOut(o.timeout))
	defer cancel()
	sales := o.sales
	if len(sales) == 0 {
		client, err := process.client("")
		if err != nil {
			return err
		}
		defer client.Close()
		if sales, err = client.SalesAt(bounded); err != nil {
			return process.explain(bounded, err)
		}
	}
	for _, sale := range sales {
		if err := p.drainSale(bounded, process, sale, o.undo); err != nil {
			return err
		}
	}
	return nil
}

// drainSale waits until a process owns nothing of a sale, or with undo its full share.
func (p *program) drainSale(ctx context.Context, process *operator, sale string, undo bool) error {
	client, err := process.client(sale)
	if err != nil {
		return err
	}
	defer client.Close()
	var share api.Share
	ask := func(ask func(context.Context) (api.Share, error)) error {
		return process.ask(ctx, kept(&share, ask))
	}
	err = ask(func(ctx context.Context) (api.Share, error) { return client.Drain(ctx, undo) })
	for said, lastAt := -1, time.Now(); err == nil; err = ask(client.Share) {
		done := share.Shards == 0
		if undo {
			done = share.Shards >= share.Assigned
		}
		switch {
		case share.State == api.ProcessDraining:
			return &planner.Refusal{Reason: process.admin.Host + " is going down"}
		case (share.State == api.ProcessStandby) == undo:
			return &planner.Refusal{Reason: fmt.Sprintf("somebody else has said meanwhile that %s is to be %s", process.admin.Host, share.State)}
		case done:
			unready := ""
			if !undo {
				unready = process.unready(ctx, client, sale)
			}
			p.drained(process, share, undo, unready)
			return nil
		case share.Shards != said && (said < 0 || time.Since(lastAt) > time.Second):
			p.say("%s", drainText(share, undo, process.admin.Host))
			said, lastAt = share.Shards, time.Now()
		}
		if api.Sleep(ctx, operatingEvery) != nil {
			err = context.Cause(ctx)
			break
		}
	}
	if share.Sale != "" && ctx.Err() != nil {
		if process.json {
			p.emit(drainReply{share, false, ""})
		}
		err = fmt.Errorf("%w: %s", context.Cause(ctx), drainText(share, undo, process.admin.Host))
		if !undo && !share.HasTakers {
			return advised{what: err.Error(), err: err,
				remedy: "'salectl drain --undo --admin URL' lets a process on standby take them, with the URL of its admin address; so does another 'salectl serve'."}
		}
		return err
	}
	return err
}

// passesWithin is the time within which a process that has released its shards can forward
// requests: their new owners notify it within milliseconds.
const passesWithin = 2 * time.Second

// unready returns why a process cannot answer for every shard of a sale, "" if it can.
func (o *operator) unready(ctx context.Context, client *api.Client, sale string) (why string) {
	for began := time.Now(); ; {
		ready, err := client.Ready(ctx)
		if err != nil {
			return o.explain(ctx, err).Error()
		}
		why = ""
		for _, s := range ready.Sales {
			if s.Sale == sale && !s.Ready {
				why = s.Reason
			}
		}
		if why == "" || time.Since(began) > passesWithin || api.Sleep(ctx, operatingEvery) != nil {
			return why
		}
	}
}

// drained reports a completed drain; unready is why the process cannot forward all requests.
func (p *program) drained(process *operator, share api.Share, undo bool, unready string) {
	switch {
	case process.json:
		p.emit(drainReply{share, true, unready})
	case undo:
		fmt.Fprintf(p.out, "%s: %s owns %s again.\n", share.Sale, process.admin.Host, count(int64(share.Shards), "shard"))
	case unready != "":
		fmt.Fprintf(p.out, "%s: %s owns no shard, and cannot pass on all that it is asked: %s\n", share.Sale, process.admin.Host, unready)
	default:
		fmt.Fprintf(p.out, "%s: %s owns no shard, and passes on what it is asked.\n", share.Sale, process.admin.Host)
	}
}

// drainText describes the progress of a drain.
func drainText(share api.Share, undo bool, host string) string {
	switch {
	case undo:
		return fmt.Sprintf("%s: %s has %d of %s", share.Sale, host, share.Shards, count(int64(share.Assigned), "shard"))
	case !share.HasTakers:
		return fmt.Sprintf("%s: %s left at %s, and no other process that it reaches can take them", share.Sale, count(int64(share.Shards), "shard"), host)
	}
	return fmt.Sprintf("%s: %s left at %s", share.Sale, count(int64(share.Shards), "shard"), host)
}
