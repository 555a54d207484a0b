import java.util.Arrays;
import java.util.TreeMap;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Puts the deleted row of a shard's log back into its table, from a snapshot of the table.
 *
 * <pre>java -cp "$(hbase classpath)" RestoreRow.java TABLE ROW SNAPSHOT</pre>
 *
 * HBase keeps deleted cells until it next flushes or compacts them away. Those of the row that it
 * still has are put back, too, so that the row may come back as it was last. All is gathered in a
 * table of its own first, SNAPSHOT_restored, so the program may be killed and be run again.
 */
public class RestoreRow {
  static final byte[] FAMILY = Bytes.toBytes("s");
  static final byte[] HEAD = Bytes.toBytes("h");

  public static void main(String[] args) throws Exception {
    if (args.length != 3) {
      System.err.println("usage: RestoreRow.java TABLE ROW SNAPSHOT");
      System.exit(2);
    }
    TableName name = TableName.valueOf(args[0]);
    TableName gathered = TableName.valueOf(name.getNamespaceAsString(), args[2] + "_restored");
    byte[] row = Bytes.toBytes(args[1]);
    try (Connection hbase = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = hbase.getAdmin(); Table table = hbase.getTable(name); Table copy = hbase.getTable(gathered)) {
      if (read(table, row, false).containsKey("h")) {
        throw new IllegalStateException("table " + name + " has the row " + args[1] + ": nothing is to be put back");
      }
      if (!admin.tableExists(gathered)) {
        admin.cloneSnapshot(args[2], gathered);
      }
      TreeMap<String, Cell> cells = read(copy, row, false);
      long before = whole(cells);
      for (Cell cell : read(table, row, true).values()) {
        Cell other = cells.merge(column(cell), cell, RestoreRow::newer);
        if (other.getTimestamp() == cell.getTimestamp() && !CellUtil.matchingValue(other, cell)) {
          throw new IllegalStateException(gathered + " and what HBase still has of the row are of two histories: drop that table, or name another snapshot");
        }
      }
      long slots = whole(cells);
      if (slots < 0 && before >= 0) { // what HBase still has does not fit together
        cells.clear();
        cells.putAll(read(copy, row, false));
        slots = before;
      }
      if (slots < 0) {
        throw new IllegalStateException("snapshot " + args[2] + " does not have the whole row " + args[1] + ", nor has the table what it lacks");
      }
      write(copy, row, cells, false);

      // A delete hides whatever has an older timestamp, also what is put later, until a major
      // compaction has removed its marker. A slot's timestamp is its number.
      byte[] region = hbase.getRegionLocator(name).getRegionLocation(row).getRegion().getRegionName();
      while (hasMarker(table, row)) {
        admin.flushRegion(region);
        admin.majorCompactRegion(region);
        Thread.sleep(1000);
      }
      write(table, row, cells, true);
      System.out.printf("%s of table %s is back, with %d slots, of which the snapshot has %d. Its head:%n%s%n", args[1], name, slots,
          Math.max(before, 0), Bytes.toString(CellUtil.cloneValue(cells.get("h"))));
      System.out.printf("When audit has found nothing, in the HBase shell: disable '%s'; drop '%1$s'%n", gathered);
    }
  }

  /** Returns the row's cells by column, the newest of each; with deleted, those that a delete hides. */
  static TreeMap<String, Cell> read(Table table, byte[] row, boolean deleted) throws Exception {
    TreeMap<String, Cell> cells = new TreeMap<>();
    Scan scan = new Scan().withStartRow(row).withStopRow(row, true).addFamily(FAMILY).setBatch(1000).setRaw(deleted);
    if (deleted) {
      scan.readAllVersions();
    }
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result part : scanner) {
        for (Cell cell : part.rawCells()) {
          if (cell.getType() == Cell.Type.Put) {
            cells.merge(column(cell), cell, RestoreRow::newer);
          }
        }
      }
    }
    return cells;
  }

  static Cell newer(Cell a, Cell b) {
    return a.getTimestamp() < b.getTimestamp() ? b : a;
  }

  static String column(Cell cell) {
    return Bytes.toString(CellUtil.cloneQualifier(cell));
  }

  /** Returns how many slots the cells have, if they are a head and all slots up to it; else -1. */
  static long whole(TreeMap<String, Cell> cells) {
    Cell head = cells.get("h");
    long slots = cells.size() - 1;
    if (head == null || head.getTimestamp() != slots) {
      return -1;
    }
    for (long slot = 0; slot < slots; slot++) {
      if (!cells.containsKey(String.format("e%016x", slot))) {
        return -1;
      }
    }
    return slots;
  }

  /** Reports whether a delete hides cells of the row. A killed run may have restored some already. */
  static boolean hasMarker(Table table, byte[] row) throws Exception {
    Scan scan = new Scan().withStartRow(row).withStopRow(row, true).addFamily(FAMILY).setBatch(1000).setRaw(true).readAllVersions();
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result part : scanner) {
        if (Arrays.stream(part.rawCells()).anyMatch(cell -> cell.getType() != Cell.Type.Put)) {
          return true;
        }
      }
    }
    return false;
  }

  /** Writes the cells with their timestamps, the head last: without it there is no log. */
  static void write(Table table, byte[] row, TreeMap<String, Cell> cells, boolean fresh) throws Exception {
    Put put = new Put(row);
    for (Cell cell : cells.values()) {
      if (!Arrays.equals(CellUtil.cloneQualifier(cell), HEAD)) {
        put.add(cell);
      }
      if (put.size() == 200) {
        table.put(put);
        put = new Put(row);
      }
    }
    put.add(cells.get("h"));
    if (!fresh) {
      table.put(put);
    } else if (!table.checkAndMutate(row, FAMILY).qualifier(HEAD).ifNotExists().thenPut(put)) {
      throw new IllegalStateException("somebody else has put the row back meanwhile");
    }
  }
}
