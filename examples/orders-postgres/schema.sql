-- Two consumers that start at once make the tables one after the other.
SELECT pg_advisory_xact_lock(7370001);

-- Each claim of each run of a sale, as it is now.
CREATE TABLE IF NOT EXISTS orders (
    run         text NOT NULL,        -- the sale and the run: claims are numbered within it
    claim       text NOT NULL,
    user_id     text NOT NULL,
    state       text NOT NULL,        -- as in an export: sold, held, cancelled, expired, refunded or entered
    units       bigint[],
    payloads    jsonb,                -- what each unit is, where it is more than a number
    amounts     numeric[],            -- what each unit is worth, of a red packet
    currency    text,                 -- of the amounts, by ISO 4217; none in rows from before it was kept
    payment     text,                 -- that bought it
    refunds_due text[] NOT NULL DEFAULT '{}',   -- payments that bought nothing, or whose purchase was refunded
    returned    text[] NOT NULL DEFAULT '{}',   -- those of refunds_due that were paid back
    held_until  timestamptz,
    placed_at   timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    PRIMARY KEY (run, claim)
);

-- An older table gets the columns that it lacks. To fill them delete the orders of the run, and the
-- row of its sale below: they are written again. If a column exists, ALTER TABLE IF NOT EXISTS would
-- still wait for all readers.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'currency') THEN
        ALTER TABLE orders ADD COLUMN currency text;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'returned') THEN
        ALTER TABLE orders ADD COLUMN returned text[] NOT NULL DEFAULT '{}';
    END IF;
END $$;

-- Up to where the table has the feed of a sale.
CREATE TABLE IF NOT EXISTS feed_position (
    sale     text PRIMARY KEY,
    position text NOT NULL DEFAULT ''           -- '': nothing of it yet
);
