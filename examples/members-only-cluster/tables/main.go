// Tables makes the two HBase tables of the example, where they are not there yet, and
// puts the users of a CSV file into the first of them: a row for each by its id, and in
// it a cell for each other column of the file, under the column's name. An empty value
// is no cell.
//
//	go run ./tables users.csv
//
// It stands for whatever keeps a shop's users, and does no more than the HBase shell can.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

// The families are those that sale.yaml names.
const (
	usersFamily   = "u"
	historyFamily = "h"
)

func main() {
	log.SetFlags(0)
	zookeeper := flag.String("zookeeper", "127.0.0.1:12181", "find HBase by this ZooKeeper")
	users := flag.String("users", "users", "put the users into this table")
	history := flag.String("history", "purchases", "make this table for what they buy")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: tables [-zookeeper HOST:PORT] [-users TABLE] [-history TABLE] FILE.csv")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	quiet := gohbase.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	admin := gohbase.NewAdminClient(*zookeeper, quiet)
	if err := errors.Join(create(ctx, admin, *users, usersFamily), create(ctx, admin, *history, historyFamily)); err != nil {
		log.Fatal(err)
	}
	client := gohbase.NewClient(*zookeeper, quiet)
	defer client.Close()
	if err := put(ctx, client, *users, rows); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d users are in the table %s, and the table %s is there.\n", len(rows), *users, *history)
}

// row is a user: a value for each column that has one.
type row struct {
	id    string
	cells map[string][]byte
}

// read returns the users of a file, whose first column is the id.
func read(file string) ([]row, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(lines) == 0 || lines[0][0] != "id" {
		return nil, fmt.Errorf("%s: the first column must be named id", file)
	}
	var rows []row
	for _, line := range lines[1:] {
		r := row{line[0], map[string][]byte{}}
		for i, value := range line {
			if i > 0 && value != "" {
				r.cells[lines[0][i]] = []byte(value)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// create makes a table; one that is there already is left as it is.
func create(ctx context.Context, admin gohbase.AdminClient, table, family string) error {
	err := admin.CreateTable(hrpc.NewCreateTable(ctx, []byte(table), map[string]map[string]string{family: nil}))
	if err != nil && !strings.Contains(err.Error(), "TableExistsException") {
		return fmt.Errorf("create the table %s: %w", table, err)
	}
	return nil
}

// put writes the rows. A cell that is there already gets a new version.
func put(ctx context.Context, client gohbase.Client, table string, rows []row) error {
	for _, r := range rows {
		cells, err := hrpc.NewPutStr(ctx, table, r.id, map[string]map[string][]byte{usersFamily: r.cells})
		if err == nil {
			_, err = client.Put(cells)
		}
		if err != nil {
			return fmt.Errorf("put %s into the table %s: %w", r.id, table, err)
		}
	}
	return nil
}
