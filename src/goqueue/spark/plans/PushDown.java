package goqueue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.Function;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonFilterPushdownResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.Option;
import scala.Some;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Gives each scan of GoQueue's sources a reader of its own, which is told the columns and the
 * conditions of that scan.
 *
 * Janino compiles this when a session begins: Java without lambdas, and casts where generic types
 * would need none.
 */
public class PushDown extends Rule {
    private final Set sources;
    private final String mark;
    private final List cheapColumns;
    private final Function reading;
    // Scans that this rule made; Spark applies it until nothing changes.
    private final Set made = Collections.synchronizedSet(
        Collections.newSetFromMap(new WeakHashMap()));

    public PushDown(Set sources, String mark, List cheapColumns, Function reading) {
        this.sources = sources;
        this.mark = mark;
        this.cheapColumns = cheapColumns;
        this.reading = reading;
    }

    public TreeNode apply(TreeNode plan) {
        return rewritten((LogicalPlan) plan);
    }

    private LogicalPlan rewritten(LogicalPlan plan) {
        if (plan instanceof Project) {
            LogicalPlan child = (LogicalPlan) ((Project) plan).child();
            LogicalPlan read = withOwnScan(child, plan.references());
            if (read != null) {
                return new Project(((Project) plan).projectList(), read);
            }
        }
        LogicalPlan read = withOwnScan(plan, plan.outputSet());
        if (read != null) {
            return read;
        }
        return (LogicalPlan) plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) {
                return rewritten((LogicalPlan) child);
            }
        });
    }

    /** Null unless the plan is a scan that has none of its own yet, perhaps below a condition. */
    private LogicalPlan withOwnScan(LogicalPlan plan, AttributeSet wanted) {
        if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter) {
            org.apache.spark.sql.catalyst.plans.logical.Filter filter =
                (org.apache.spark.sql.catalyst.plans.logical.Filter) plan;
            LogicalPlan child = (LogicalPlan) filter.child();
            if (!isOurs(child)) {
                return null;
            }
            List conditions = new ArrayList();
            Iterator parts = filter.splitConjunctivePredicates(filter.condition()).iterator();
            while (parts.hasNext()) {
                Option condition =
                    DataSourceStrategy$.MODULE$.translateFilter((Expression) parts.next(), true);
                if (condition.isDefined()) {
                    conditions.add(condition.get());
                }
            }
            LogicalPlan read = scanned(
                (DataSourceV2ScanRelation) child, wanted.$plus$plus(filter.references()), conditions);
            return new org.apache.spark.sql.catalyst.plans.logical.Filter(filter.condition(), read);
        }
        return isOurs(plan)
            ? scanned((DataSourceV2ScanRelation) plan, wanted, new ArrayList()) : null;
    }

    private boolean isOurs(LogicalPlan plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)) {
            return false;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
        Object table = relation.relation().table();
        return table instanceof PythonTable
            && sources.contains(((PythonTable) table).name())
            && !made.contains(relation.scan());
    }

    private LogicalPlan scanned(
            DataSourceV2ScanRelation relation, AttributeSet wanted, List conditions) {
        List columns = columns(relation, wanted);
        StructField[] fields = new StructField[columns.size()];
        for (int index = 0; index < fields.length; index++) {
            String name = ((Attribute) columns.get(index)).name();
            fields[index] = relation.scan().readSchema().apply(name);
        }
        Scan scan = newScan(relation, new StructType(fields), conditions);
        made.add(scan);
        Object[] parts = new Object[relation.productArity()];
        for (int index = 0; index < parts.length; index++) {
            parts[index] = relation.productElement(index);
        }
        // The second and the third are the scan and its columns.
        parts[1] = scan;
        parts[2] = CollectionConverters.asScala(columns).toSeq();
        return (LogicalPlan) relation.makeCopy(parts);
    }

    /** The wanted columns; a cheap one where none is, for rows without columns are slow to make. */
    private List columns(DataSourceV2ScanRelation relation, AttributeSet wanted) {
        List found = new ArrayList();
        Map byName = new HashMap();
        Iterator all = relation.output().iterator();
        while (all.hasNext()) {
            Attribute attribute = (Attribute) all.next();
            byName.put(attribute.name(), attribute);
            if (wanted.contains(attribute)) {
                found.add(attribute);
            }
        }
        for (int index = 0; found.isEmpty() && index < cheapColumns.size(); index++) {
            if (byName.containsKey(cheapColumns.get(index))) {
                found.add(byName.get(cheapColumns.get(index)));
            }
        }
        if (found.isEmpty()) {
            found.add(relation.output().head());
        }
        return found;
    }

    private Scan newScan(DataSourceV2ScanRelation relation, StructType columns, List conditions) {
        String name = ((PythonTable) relation.relation().table()).name();
        Map given = new HashMap(relation.relation().options().asCaseSensitiveMap());
        if (!conditions.isEmpty()) {
            given.put(mark, "true");
        }
        CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(given);
        PythonDataSourceV2 provider = new PythonDataSourceV2();
        provider.setShortName(name);
        if (!conditions.isEmpty()) {
            PythonDataSourceCreationResult source =
                provider.getOrCreateDataSourceInPython(name, options, new Some(columns));
            Filter[] filters = (Filter[]) conditions.toArray(new Filter[0]);
            Option pushed = provider.source().pushdownFiltersInPython(source, columns, filters);
            if (pushed.isDefined()) {
                provider.setReadInfo(((PythonFilterPushdownResult) pushed.get()).readInfo());
            }
        }
        PythonTable table = (PythonTable) provider.getTable(columns, new Transform[0], given);
        return (Scan) reading.apply(table.newScanBuilder(options).build());
    }
}
