// Orders keeps a table of orders in PostgreSQL: each claim of a sale once, as it is now.
//
//	DATABASE_URL=postgres://shop@127.0.0.1/shop orders -sale prints -f sale.yaml
//
// It starts 'salectl export --follow' and writes its output. The feed delivers each event at
// least once; the table has each exactly once, because the position up to which it has the feed
// is written in the same transaction as the orders.
//
// Whatever goes wrong, it ends with an error and is to be started again, as systemd or Kubernetes
// do: it goes on at the position that the database has. So it, salectl and PostgreSQL may be
// killed at any moment, also while the outcome of a transaction is unknown.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed schema.sql
var schema string

// event is a line of the feed, with what matters here.
type event struct {
	Type    string    `json:"type"`
	Source  string    `json:"source"`  // the sale and its run
	Subject string    `json:"subject"` // the claim
	Time    time.Time `json:"time"`
	Data    struct {
		Position string `json:"position"` // of salectl.resolved, like Ended
		Ended    bool   `json:"ended"`

		// Of a claim; nil: as it was.
		State     *string         `json:"state"`
		User      *string         `json:"user"`
		Units     []int64         `json:"units"`
		Payloads  json.RawMessage `json:"payloads"`
		Amounts   []string        `json:"amounts"`
		Currency  *string         `json:"currency"` // of the amounts
		HeldUntil *time.Time      `json:"heldUntil"`
		Payment   *string         `json:"payment"`
		At        *time.Time      `json:"at"`
	} `json:"data"`
}

func main() {
	log.SetFlags(0)
	sale := flag.String("sale", "", "the sale's name")
	file := flag.String("f", "sale.yaml", "the sale's file, for salectl")
	flag.Parse()
	if *sale == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := keep(ctx, *sale, *file)
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
	stop()
}

// keep writes the feed to the database until the sale is destroyed and all of it is written.
func keep(ctx context.Context, sale, file string) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	position, err := begin(ctx, db, sale)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	salectl := exec.CommandContext(ctx, "salectl", "export", "--follow", "-f", file)
	if position != "" {
		salectl.Args = append(salectl.Args, "--from", position)
	}
	salectl.Stderr = os.Stderr
	out, err := salectl.StdoutPipe()
	if err == nil {
		err = salectl.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	defer salectl.Wait()
	defer cancel()

	lines := json.NewDecoder(out)
	for claims, ended := []event(nil), false; ; {
		var e event
		switch err := lines.Decode(&e); {
		case errors.Is(err, io.EOF) && ended:
			log.Printf("the feed of %s has ended, and the table has all of it. For the next run of the sale, "+again, sale, sale)
			return nil
		case err != nil && position == "":
			return fmt.Errorf("salectl has ended (%w)", err)
		case err != nil:
			return fmt.Errorf("salectl has ended (%w). If it reports that the position is not of this ledger, the ledger is another one, "+
				"or was restored from a copy. To begin at its beginning, "+again, err, sale)
		case !strings.HasPrefix(e.Source, "/v1/sales/"+sale+"/"):
			return fmt.Errorf("%s is not the file of the sale %s: it has %s", file, sale, e.Source)
		case strings.HasPrefix(e.Type, "salectl.claim."):
			claims = append(claims, e)
		case e.Type == "salectl.resolved":
			if err := write(ctx, db, sale, position, e.Data.Position, claims); err != nil {
				return err
			}
			claims, position, ended = nil, e.Data.Position, e.Data.Ended
		}
	}
}

// begin makes the tables, if there are none yet, and returns where the feed goes on.
func begin(ctx context.Context, db *pgx.Conn, sale string) (position string, err error) {
	if _, err := db.Exec(ctx, schema); err != nil {
		return "", err
	}
	// A consumer that was killed may have left a transaction that is still being committed. It
	// has locked the row; so this changes the row even where it is there, to wait for its end.
	err = db.QueryRow(ctx, `INSERT INTO feed_position (sale) VALUES ($1) ON CONFLICT (sale) DO UPDATE SET sale = $1 RETURNING position`, sale).Scan(&position)
	return position, err
}

const (
	again = `DELETE FROM feed_position WHERE sale = '%s'`

	locked = `SELECT position FROM feed_position WHERE sale = $1 FOR UPDATE`
	moved  = `UPDATE feed_position SET position = $2 WHERE sale = $1`

	placed = `INSERT INTO orders (run, claim, user_id, state, units, payloads, amounts, currency, held_until, placed_at, changed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7::text[]::numeric[], $8, $9, coalesce($10::timestamptz, $11), $11)`
	changed = `UPDATE orders SET state = coalesce($3, state), units = coalesce($4, units), payloads = coalesce($5, payloads),
		amounts = coalesce($6::text[]::numeric[], amounts), held_until = coalesce($7, held_until), payment = coalesce($8::text, payment), changed_at = $9,
		refunds_due = CASE WHEN $3 = 'refunded' AND $8::text IS NOT NULL THEN refunds_due || $8::text ELSE refunds_due END
		WHERE run = $1 AND claim = $2`
	owed     = `UPDATE orders SET refunds_due = refunds_due || $3::text, changed_at = $4 WHERE run = $1 AND claim = $2`
	returned = `UPDATE orders SET returned = returned || $3::text, changed_at = $4 WHERE run = $1 AND claim = $2`
)

// write writes what became of claims between two positions, and that the table has it: all of it
// or nothing. It fails if another consumer has moved the position, who has written the same.
func write(ctx context.Context, db *pgx.Conn, sale, from, to string, claims []event) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var position string
		if err := tx.QueryRow(ctx, locked, sale).Scan(&position); err != nil {
			return err
		}
		if position != from {
			return fmt.Errorf("another consumer writes the orders of %s; let one run at a time", sale)
		}
		var b pgx.Batch
		one := func(sql string, args ...any) {
			b.Queue(sql, args...).Exec(func(done pgconn.CommandTag) error {
				if done.RowsAffected() != 1 {
					return fmt.Errorf("%d rows, and not 1, were written by %s %v", done.RowsAffected(), sql, args)
				}
				return nil
			})
		}
		for _, e := range claims {
			d := &e.Data
			switch e.Type {
			case "salectl.claim.sold", "salectl.claim.held", "salectl.claim.entered": // the first of a claim
				one(placed, e.Source, e.Subject, d.User, d.State, d.Units, d.Payloads, d.Amounts, d.Currency, d.HeldUntil, d.At, e.Time)
			case "salectl.claim.refund_due":
				one(owed, e.Source, e.Subject, d.Payment, e.Time)
			case "salectl.claim.returned":
				one(returned, e.Source, e.Subject, d.Payment, e.Time)
			default:
				one(changed, e.Source, e.Subject, d.State, d.Units, d.Payloads, d.Amounts, d.HeldUntil, d.Payment, e.Time)
			}
		}
		one(moved, sale, to)
		return tx.SendBatch(ctx, &b).Close()
	})
}
