package goqueue;

import java.util.Set;
import java.util.function.Function;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamBase;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.AccumulatorV2;

import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Hands Spark the columns that a Python reader sends: for a batch as a function from scan to scan,
 * for a stream as a strategy of the planner.
 *
 * Spark itself makes a row of each record twice: when it leaves Arrow's columns, and once more for
 * the operators of the query. With columns, these take from them what they need, as from Parquet.
 *
 * Tasks use these classes, so they go to the executors as a jar. Compiled like PushDown.java.
 */
public class ArrowReading extends SparkStrategy implements Function {
    private final Set sources;

    public ArrowReading(Set sources) {
        this.sources = sources;
    }

    public Object apply(Object scan) {
        return new ArrowScan((Scan) scan);
    }

    public Seq apply(LogicalPlan plan) {
        SparkPlan found = planned(plan);
        return (Seq) (found == null ? Nil$.MODULE$ : Nil$.MODULE$.prepended(found));
    }

    /** Null unless this is a stream of ours, perhaps below conditions and a choice of columns. */
    private SparkPlan planned(LogicalPlan plan) {
        if (plan instanceof Project) {
            SparkPlan child = planned((LogicalPlan) ((Project) plan).child());
            return child == null ? null : new ProjectExec(((Project) plan).projectList(), child);
        }
        if (plan instanceof Filter) {
            SparkPlan child = planned((LogicalPlan) ((Filter) plan).child());
            return child == null ? null : new FilterExec(((Filter) plan).condition(), child);
        }
        if (!(plan instanceof StreamingDataSourceV2ScanRelation)) {
            return null;
        }
        StreamingDataSourceV2ScanRelation relation = (StreamingDataSourceV2ScanRelation) plan;
        boolean isOurs = sources.contains(relation.relation().table().name())
            && relation.stream() instanceof PythonMicroBatchStreamBase
            && relation.startOffset().isDefined()
            && relation.endOffset().isDefined();
        return !isOurs ? null : new MicroBatchScan(
            (Seq) relation.output(),
            relation.scan(),
            (MicroBatchStream) relation.stream(),
            (Offset) relation.startOffset().get(),
            (Offset) relation.endOffset().get(),
            Option.empty(),
            Option.empty());
    }

    /** Spark copies plans by their public constructors. */
    public static class MicroBatchScan extends MicroBatchScanExec {
        public MicroBatchScan(
                Seq output,
                Scan scan,
                MicroBatchStream stream,
                Offset start,
                Offset end,
                Option keyGroupedPartitioning,
                Option ordering) {
            super(output, scan, stream, start, end, keyGroupedPartitioning, ordering);
        }

        public boolean supportsColumnar() {
            return true;
        }

        public PartitionReaderFactory readerFactory() {
            return new ArrowReaderFactory(super.readerFactory());
        }
    }
}

/** A scan of rows as one of columns. */
class ArrowScan implements Scan, SupportsMetadata {
    private final Scan rows;
    private Batch batch;

    ArrowScan(Scan rows) {
        this.rows = rows;
    }

    public StructType readSchema() {
        return rows.readSchema();
    }

    public String description() {
        return rows.description();
    }

    public Map getMetaData() {
        return ((SupportsMetadata) rows).getMetaData();
    }

    public CustomMetric[] supportedCustomMetrics() {
        return rows.supportedCustomMetrics();
    }

    public CustomTaskMetric[] reportDriverMetrics() {
        return rows.reportDriverMetrics();
    }

    public Scan.ColumnarSupportMode columnarSupportMode() {
        return Scan.ColumnarSupportMode.SUPPORTED;
    }

    /** Always the same: by it Spark knows that two parts of a plan read the same. */
    public synchronized Batch toBatch() {
        if (batch == null) {
            batch = new ArrowBatch(rows.toBatch());
        }
        return batch;
    }
}

class ArrowBatch implements Batch {
    private final Batch rows;

    ArrowBatch(Batch rows) {
        this.rows = rows;
    }

    public InputPartition[] planInputPartitions() {
        return rows.planInputPartitions();
    }

    public PartitionReaderFactory createReaderFactory() {
        return new ArrowReaderFactory(rows.createReaderFactory());
    }
}

class ArrowReaderFactory implements PartitionReaderFactory {
    private final PartitionReaderFactory rows;

    ArrowReaderFactory(PartitionReaderFactory rows) {
        this.rows = rows;
    }

    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    public PartitionReader createReader(InputPartition partition) {
        return rows.createReader(partition);
    }

    public PartitionReader createColumnarReader(InputPartition partition) {
        if (partition instanceof PythonInputPartition) {
            PythonPartitionReaderFactory from = (PythonPartitionReaderFactory) rows;
            return new ArrowReader(
                from.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$source,
                from.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$pickledReadFunc,
                from.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$outputSchema,
                from.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$jobArtifactUUID,
                from.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$sessionUUID,
                ((PythonInputPartition) partition).pickedPartition());
        }
        PythonStreamingPartitionReaderFactory from = (PythonStreamingPartitionReaderFactory) rows;
        return new ArrowReader(
            from.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$source,
            from.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$pickledReadFunc,
            from.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$outputSchema,
            from.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$jobArtifactUUID,
            from.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$sessionUUID,
            ((PythonStreamingInputPartition) partition).pickedPartition());
    }
}

/** Runs the reader in a Python worker, as Spark does, and passes on the batches it sends. */
class ArrowReader implements PartitionReader {
    private static final String READS = "read_from_data_source";

    private final UserDefinedPythonDataSource source;
    private final StructType columns;
    private final Map metrics = PythonCustomMetric.pythonMetrics();
    private final Iterator batches;

    ArrowReader(
            UserDefinedPythonDataSource source,
            byte[] reader,
            StructType columns,
            Option artifacts,
            Option session,
            byte[] partition) {
        this.source = source;
        this.columns = columns;
        StructType input = UserDefinedPythonDataSource.readInputSchema();
        MapInBatchEvaluatorFactory given = source.createMapInBatchEvaluatorFactory(
            reader, READS, input, columns, metrics, artifacts, session);
        StructField argument = new StructField("struct", input, true, Metadata.empty());
        ArrowPythonRunner runner = new ArrowPythonRunner(
            given.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$chainedFunc,
            given.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonEvalType,
            new int[][] {{0}},
            new StructType(new StructField[] {argument}),
            given.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$sessionLocalTimeZone,
            given.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$largeVarTypes,
            given.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonRunnerConf,
            metrics,
            artifacts,
            session);
        Object row = new GenericInternalRow(
            new Object[] {new GenericInternalRow(new Object[] {partition})});
        Iterator rows = Iterator$.MODULE$.single(row);
        this.batches = runner.compute(
            Iterator$.MODULE$.single(rows), TaskContext.get().partitionId(), TaskContext.get());
    }

    public boolean next() {
        return batches.hasNext();
    }

    /** The columns are the fields of one structure, the same object for all batches. */
    public Object get() {
        ColumnarBatch batch = (ColumnarBatch) batches.next();
        ArrowColumnVector structure = (ArrowColumnVector) batch.column(0);
        check(structure.dataType());
        ColumnVector[] found = new ColumnVector[columns.length()];
        for (int index = 0; index < found.length; index++) {
            ColumnVector column = structure.getChild(index);
            found[index] = column.hasNull() ? column : new FullColumn(column);
        }
        return new RunnersBatch(found, batch.numRows());
    }

    private void check(DataType sent) {
        if (!DataType$.MODULE$.equalsIgnoreCompatibleNullability(sent, columns)) {
            throw new IllegalStateException(
                "the reader sent " + sent.catalogString() + " for " + columns.catalogString());
        }
    }

    public CustomTaskMetric[] currentMetricsValues() {
        return source.createPythonTaskMetrics((Map) metrics.map(new AbstractFunction1() {
            public Object apply(Object named) {
                Tuple2 metric = (Tuple2) named;
                return new Tuple2(metric._1(), ((AccumulatorV2) metric._2()).value());
            }
        }));
    }

    /** The task's end ends the worker's turn. */
    public void close() {}
}

/** Its memory is the runner's, which uses it for the next batch and frees it after the last. */
class RunnersBatch extends ColumnarBatch {
    RunnersBatch(ColumnVector[] columns, int rows) {
        super(columns, rows);
    }

    public void close() {}

    public void closeIfFreeable() {}
}

/** One without nulls: to ask Arrow for each value takes longer than to read it. */
class FullColumn extends ColumnVector {
    private final ColumnVector column;

    FullColumn(ColumnVector column) {
        super(column.dataType());
        this.column = column;
    }

    public boolean hasNull() {
        return false;
    }

    public int numNulls() {
        return 0;
    }

    public boolean isNullAt(int row) {
        return false;
    }

    public boolean getBoolean(int row) {
        return column.getBoolean(row);
    }

    public byte getByte(int row) {
        return column.getByte(row);
    }

    public short getShort(int row) {
        return column.getShort(row);
    }

    public int getInt(int row) {
        return column.getInt(row);
    }

    public long getLong(int row) {
        return column.getLong(row);
    }

    public float getFloat(int row) {
        return column.getFloat(row);
    }

    public double getDouble(int row) {
        return column.getDouble(row);
    }

    public Decimal getDecimal(int row, int precision, int scale) {
        return column.getDecimal(row, precision, scale);
    }

    public UTF8String getUTF8String(int row) {
        return column.getUTF8String(row);
    }

    public byte[] getBinary(int row) {
        return column.getBinary(row);
    }

    public ColumnarArray getArray(int row) {
        return column.getArray(row);
    }

    public ColumnarMap getMap(int row) {
        return column.getMap(row);
    }

    public ColumnVector getChild(int index) {
        return column.getChild(index);
    }

    public void close() {
        column.close();
    }
}
